/**
 * Mistakes of an operator: one line on stderr that says what is wrong and what to do, the right
 * exit code, and no stack.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Connection } from '../../shared/connection.ts';
import { decodeValue } from '../../shared/frame.ts';
import { ServerHandshake } from '../../shared/handshake.ts';
import { selfSigned } from '../support/certificates.ts';
import { Cluster, type Program, type RunOptions } from '../support/cluster.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const key = 'a-key-that-is-long-enough';
/** Ports that nobody listens on or that would need no network. */
const nowhere = '127.0.0.1:1';

const commands = new Set(['status', 'try', 'add', 'pause', 'cancel', 'buried', 'repair']);

type Case = {
  readonly args: readonly string[];
  readonly says: RegExp;
  readonly code?: number;
  readonly env?: Record<string, string>;
  /** Files to be there before, by their paths. */
  readonly files?: Readonly<Record<string, string>>;
};

const mine = selfSigned();
const other = selfSigned();

const wholeNumbers: readonly (readonly [string, readonly string[]])[] = [
  ['--max-depth', ['-1', '1.5', 'x', '65536', '']],
  ['--max-pages', ['0', '-1', 'many']],
  ['--delay', ['-1', '1s', '86400001']],
  ['--per-host', ['0', '10001']],
  ['--attempts', ['0', '101']],
  ['--fetch-timeout', ['0', '600001']],
  ['--page-bytes', ['0', '10M']],
  ['--rule-bytes', ['0', '10M']],
  ['--redirects', ['51']],
  ['--urls-expected', ['0', '1e6']],
  ['--memory-limit', ['255', '1k']],
  ['--recent-urls', ['1', '1k']],
  ['--status-every', ['0', '-5']],
  ['--lease', ['0', 'x']],
];

const masterCases: readonly Case[] = [
  ...wholeNumbers.flatMap(([flag, values]) =>
    values.map((value) => ({
      args: [`${flag}=${value}`],
      says: new RegExp(`option '${flag} <.*argument '${value}' is invalid\\. It must be .*from`),
    })),
  ),
  { args: ['host', '', '--wake'], says: /"" is no host: write one such as example\.org/ },
  { args: ['--scope', 'world'], says: /--scope.*'world' is invalid.*host, domain, any/ },
  { args: ['--order', 'random'], says: /--order.*'random' is invalid.*bfs, dfs, priority/ },
  { args: ['--images', 'some'], says: /--images.*'some' is invalid.*img, all/ },
  { args: ['--log-level', 'loud'], says: /--log-level.*'loud' is invalid.*debug, info/ },
  { args: ['--include', '('], says: /--include.*is not a regular expression/ },
  { args: ['--exclude', '[a'], says: /--exclude.*is not a regular expression/ },
  { args: ['--user-agent', ''], says: /--user-agent/ },
  { args: ['--contact', 'me'], says: /--contact.*URL or a mail address/ },
  { args: ['--proxy', 'box:3128'], says: /--proxy.*http:\/\/, https:\/\/ or socks5/ },
  { args: ['--crawl', '../up'], says: /--crawl.*letters, digits/ },
  { args: ['--crawl', ''], says: /--crawl.*letters, digits/ },
  { args: ['--no-such-flag'], says: /unknown option '--no-such-flag'.*see --help/ },
  { args: ['try', 'a.yaml', 'http://a/', '--allow-private'], says: /option '--allow-private' \(/ },
  { args: ['--max-depht', '3'], says: /unknown option '--max-depht'.*--max-depth/ },
  { args: ['--data'], says: /option '--data <folder>' argument missing/ },
  { args: ['example.com'], says: /seed "example\.com".*https:\/\/example\.com/ },
  { args: ['ftp://example.com/'], says: /seed "ftp:\/\/example\.com\/" is not an http or https/ },
  { args: ['http://'], says: /seed "http:\/\/" is not an http or https/ },
  { args: ['statsu'], says: /"statsu" is neither a URL nor a command.*--help/ },
  { args: ['--listen', '6666'], says: /--listen.*:6666/ },
  { args: ['--listen', 'a:b:c'], says: /--listen.*"a:b:c" is not an address/ },
  { args: ['--listen', '127.0.0.1:99999'], says: /--listen.*99999.*is not an address/ },
  { args: ['--listen', 'no.such.host.invalid:0'], says: /cannot listen on no\.such.*--listen/ },
  { args: ['--listen', '203.0.113.1:0'], says: /cannot listen on 203\.0\.113\.1:0.*--listen/ },
  { args: ['--config', 'none.yaml'], says: /cannot read the config file none\.yaml: ENOENT/ },
  { args: ['--config', '.'], says: /cannot read the config file \.: EISDIR/ },
  { ...config('a: [1, 2'), says: /c\.yaml is not YAML/ },
  { ...config('just text'), says: /c\.yaml must hold option: value lines/ },
  { ...config('- delay'), says: /c\.yaml must hold option: value lines/ },
  { ...config('delay: 1\n\ndeley: 5'), says: /c\.yaml:3: .* "deley"; did you mean delay\?/ },
  { ...config('delay: soon'), says: /c\.yaml:1: delay: It must be a whole number/ },
  { ...config('delay: {a: 1}'), says: /c\.yaml:1: "delay" must be text or a number/ },
  { ...config('json-logs: "yes"'), says: /c\.yaml:1: "json-logs" must be true or false/ },
  { ...config('scope: world'), says: /c\.yaml:1: scope: .*host, domain, any/ },
  { ...config('config: other.yaml'), says: /c\.yaml:1: .*"config"/ },
  { ...config('data:'), says: /c\.yaml:1: "data" must be text or a number/ },
  { ...config('? [a]\n: 1'), says: /^[^\n]*c\.yaml:\d: there is no option "\[ a \]"[^\n]*\n$/ },
  {
    ...config('delay: 1\ndelay: 2'),
    says: /not YAML: Map keys must be unique at line 2, column 1\n$/,
  },
  { ...config('max-depth: [1, 2]'), says: /c\.yaml:1: max-depth: It must be a whole number/ },
  {
    args: [],
    env: { ORB_DELAY: 'soon' },
    says: /'soon' from env 'ORB_DELAY' is invalid.*whole number/,
  },
  { args: [], env: { ORB_EXIT_WHEN_DONE: 'maybe' }, says: /ORB_EXIT_WHEN_DONE.*true or false/ },
  { args: [], env: { ORB_AUTHKEY: '' }, says: /ORB_AUTHKEY is empty.*(unset|give)/ },
  {
    args: ['--authkey-file', 'file/none'],
    files: { file: 'x' },
    says: /cannot create the authkey file file\/none: ENOTDIR/,
  },
  { args: ['--authkey-file', '.'], says: /cannot read the authkey file \.: EISDIR/ },
  { args: ['--authkey-file', 'k'], files: { k: '\n' }, says: /authkey file k is empty/ },
  {
    args: ['--listen', '0.0.0.0:0'],
    env: { ORB_AUTHKEY: 'short' },
    says: /authkey has 5 bytes.*needs 16.*--listen 127\.0\.0\.1/,
  },
  { args: ['--listen', ':0'], env: { ORB_AUTHKEY: 'short' }, says: /authkey has 5 bytes/ },
  { args: ['--data', 'file/data'], files: { file: 'x' }, says: /data folder file\/data: .*--data/ },
  { args: ['--data', 'file'], files: { file: 'x' }, says: /data folder file: .*--data/ },
  // Where the system refuses a new folder as if its parent were missing.
  { args: ['--data', '/proc/x'], says: /data folder \/proc\/x: ENOENT.*choose another --data/ },
  { args: ['--data', '/proc/x/y', '--slaves', '2'], says: /data folder \/proc\/x\/y: ENOENT/ },
  { args: ['--data', '/proc/1/x'], says: /data folder \/proc\/1\/x: E.*choose another --data/ },
  { args: ['--data', '/sys/x'], says: /data folder \/sys\/x: E.*choose another --data/ },
  { args: ['--data', ''], says: /--data is empty; give it a value/ },
  { args: ['http://127.0.0.1:1/', '--out', '/proc/x'], says: /\/proc\/x.*choose another --out/ },
  { args: ['--authkey-file', '/proc/x'], says: /cannot create the authkey file \/proc\/x: ENOENT/ },
  {
    args: ['http://127.0.0.1:1/', '--out', 'file/out'],
    files: { file: 'x' },
    says: /file\/out.*--out/,
  },
  {
    args: ['--data', 'd'],
    files: { 'd/store/store.mdb/x': '' },
    says: /cannot read the store d\/store\/store\.mdb: EISDIR/,
  },
  {
    args: ['http://127.0.0.1:1/', '--urls-expected', '1000000000'],
    says: /1000000000 expected URLs take .*lower --urls-expected/,
  },
  { ...certificate(mine.key, mine.key), says: /--tls-cert is not a certificate/ },
  { ...certificate(mine.cert, mine.cert), says: /--tls-key is not a private key/ },
  { ...certificate(mine.cert, other.key), says: /--tls-key is not the key of .*--tls-cert/ },
  {
    args: ['http://127.0.0.1:1/', '--out', 'out'],
    files: { 'out/default/pages.jsonl': '{"mine":true}\n' },
    says: /out\/default\/pages\.jsonl holds.*move it away, or choose another/,
  },
  {
    args: ['http://127.0.0.1:1/', '--out', 'out', '--crawl', 'b'],
    files: { 'out/b/img_src.txt': 'mine\n' },
    says: /out\/b\/img_src\.txt holds.*move it away, or choose another/,
  },
];

const slaveCases: readonly Case[] = [
  { args: ['--slots', '0'], says: /--slots.*'0' is invalid.*from 1 to 1000/ },
  { args: ['--slots', '1001'], says: /--slots.*from 1 to 1000/ },
  { args: ['--processes', '0'], says: /--processes.*from 1 to 256/ },
  { args: ['--processes', 'two'], says: /--processes.*from 1 to 256/ },
  { args: ['--join-timeout', '-1'], says: /--join-timeout.*whole number/ },
  { args: ['--name', ''], says: /--name is empty/ },
  { args: ['--name', 'x'.repeat(65)], says: /--name must have 1 to 64/ },
  { args: ['--name', 'a\tb'], says: /--name must have 1 to 64 printable/ },
  { args: ['--master', 'a:b:c'], says: /--master.*"a:b:c" is not an address; write host:port/ },
  { args: ['--master', 'http://box:6666'], says: /--master.*is not an address; write host:port/ },
  { args: ['--mastr', 'box'], says: /unknown option '--mastr'.*--master/ },
  { args: ['box:6666'], says: /too many arguments.*--help/ },
  { args: [], env: { ORB_AUTHKEY: '' }, says: /ORB_AUTHKEY is empty/ },
  { args: [], says: /there is no \.\/orb-data in this folder.*give --master and --authkey-file/ },
  { args: ['--authkey-file', 'none'], says: /cannot read the authkey file none/ },
  {
    args: ['--master', nowhere, '--join-timeout', '1'],
    env: { ORB_AUTHKEY: key },
    says: /no master answers at 127\.0\.0\.1:1 .*ECONNREFUSED.*start the master, or give its address with --master/,
  },
  {
    args: ['--master', 'no.such.host.invalid', '--join-timeout', '0'],
    env: { ORB_AUTHKEY: key },
    says: /no master answers at no\.such\.host\.invalid:6666/,
  },
];

const askCases: readonly Case[] = [
  {
    args: ['status', '--master', nowhere],
    env: { ORB_AUTHKEY: key },
    says: /no master answers at 127\.0\.0\.1:1 .*start a master, or give its address with --master/,
  },
  { args: ['status'], says: /there is no \.\/orb-data in this folder: run/ },
  { args: ['status'], files: { 'orb-data/store/x': '' }, says: /no authkey: give --authkey-file/ },
  { args: ['status', '--master', nowhere], says: /no authkey: give --authkey-file/ },
  {
    args: ['status', '--no-tls', '--master', 'orbs://127.0.0.1:1'],
    env: { ORB_AUTHKEY: key },
    says: /--no-tls and orbs:\/\/.* contradict each other/,
  },
  {
    args: ['--crawl', 'a', 'add', 'http://a/'],
    says: /--(listen|crawl) stands before "add".*behind it: node master\.js add/,
  },
  { args: ['status', 'extra'], says: /too many arguments/ },
  { args: ['repair', '--data', '/proc/x'], says: /\/proc\/x/ },
  { args: ['add'], says: /no seed was given: add https.*--seeds FILE/ },
  { args: ['add', 'nonsense'], says: /seed "nonsense".*https:\/\/nonsense/ },
  { args: ['add', 'http://a/', '--priority', '1001'], says: /--priority.*from -1000 to 1000/ },
  { args: ['add', 'http://a/', '--crawl', 'a/b'], says: /--crawl.*letters, digits/ },
  { args: ['pause'], says: /missing required argument 'crawl'/ },
  { args: ['cancel', 'a/b'], says: /crawl.*letters, digits/ },
  { args: ['buried', 'x', '--repaly'], says: /unknown option '--repaly'.*--replay/ },
];

// A hundred programs, one after the other on a busy machine.
describe('bad input: one line, the right exit code', {
  concurrency: 2,
  timeout: 3 * timeout,
}, () => {
  const all = [
    ...masterCases.map((each) => ({ ...each, program: 'master.js' })),
    ...slaveCases.map((each) => ({ ...each, program: 'slave.js' })),
    ...askCases.map((each) => ({ ...each, program: 'master.js' })),
  ];
  for (const { program, args, env, files, says, code = 2 } of all) {
    const variables = Object.entries(env ?? {}).map(([name, value]) => `${name}=${value} `);
    const shown = `${variables.join('')}${program} ${args.join(' ')}`.slice(0, 120);
    const content = Object.values(files ?? {}).map((text) => text.trim().slice(0, 40));
    test(`${shown}${files ? ` (${content.join(', ')}, ${says})` : ''}`, async (t) => {
      const cluster = new Cluster(t);
      for (const [path, text] of Object.entries(files ?? {})) {
        mkdirSync(join(cluster.folder, path, '..'), { recursive: true });
        writeFileSync(join(cluster.folder, path), text, { mode: 0o600 });
      }
      const options: RunOptions = env === undefined ? {} : { env };
      const isServing = program === 'master.js' && !commands.has(args[0] ?? '');
      const free = isServing && !args.includes('--listen') ? ['--listen', '127.0.0.1:0'] : [];
      const bad = cluster.run([program, ...free, ...args], options);
      await assertOneLine(bad, program, code, says);
    });
  }
});

describe('bad input: what only shows when it runs', { concurrency: 4, timeout }, () => {
  test('a port in use', async (t) => {
    const { cluster } = await running(t);
    const second = cluster.run(['master.js', '--listen', cluster.address, '--data', 'other']);
    await assertOneLine(second, 'master.js', 2, /127\.0\.0\.1:\d+ is in use; stop.*--listen/);
  });

  test('a data folder in use', async (t) => {
    const { cluster, master } = await running(t);
    const args = ['--listen', '127.0.0.1:0', '--data', cluster.data];
    const second = cluster.run(['master.js', ...args]);
    const says = new RegExp(`data folder .* in use .*process id ${master.pid}; stop it, or choose`);
    await assertOneLine(second, 'master.js', 2, says);
    assert.match(await cluster.ask('status'), /no crawls/, 'the first goes on');
  });

  test('a wrong authkey', async (t) => {
    const { cluster } = await running(t);
    const options = { env: { ORB_AUTHKEY: 'another-key-than-the-master' } };
    const slave = cluster.run(['slave.js', '--master', cluster.address], options);
    await assertOneLine(slave, 'slave.js', 3, /refused the authkey.*--authkey-file/);
    const ask = cluster.run(['master.js', 'status', '--master', cluster.address], options);
    await assertOneLine(ask, 'master.js', 3, /refused the authkey.*--authkey-file/);
    const two = ['slave.js', '--processes', '2', '--master', cluster.address];
    assert.equal((await cluster.run(two, options).exited).code, 3);
  });

  test('a crawl whose folder cannot be written, added to a running master', async (t) => {
    const { cluster, master } = await running(t);
    mkdirSync(cluster.out, { recursive: true });
    writeFileSync(join(cluster.out, 'blocked'), 'a file');
    await assert.rejects(
      cluster.ask('add', 'http://127.0.0.1:1/', '--crawl', 'blocked'),
      /exit code 2: master: .*blocked.*\n$/,
    );
    assert.ok(master.isAlive, 'the master goes on');
  });

  test('another protocol version', async (t) => {
    const port = await listen(t, (socket) => refuseVersion(socket));
    const options = { env: { ORB_AUTHKEY: key } };
    const where = ['--master', `127.0.0.1:${port}`];
    const says = /127\.0\.0\.1:\d+: .*protocol 7.*the same version/;
    const { cluster } = alone(t);
    await assertOneLine(cluster.run(['slave.js', ...where], options), 'slave.js', 2, says);
    const ask = cluster.run(['master.js', 'status', ...where], options);
    await assertOneLine(ask, 'master.js', 2, says);
  });

  for (const kind of ['http', 'silent', 'ssh', 'closing'] as const) {
    test(`a port where something else listens: ${kind}`, async (t) => {
      const port = await listen(t, kind === 'http' ? undefined : talkOf(kind));
      const options = { env: { ORB_AUTHKEY: key } };
      const where = ['--master', `127.0.0.1:${port}`];
      const says =
        kind === 'ssh'
          ? /127\.0\.0\.1:\d+: this is not an Orbweaver master.*--master/
          : /no master answers at 127\.0\.0\.1:\d+ \(.*\); start .*--master/;
      const { cluster } = alone(t);
      const slave = cluster.run(['slave.js', ...where, '--join-timeout', '1'], options);
      const ask = cluster.run(['master.js', 'status', ...where], options);
      await Promise.all([
        assertOneLine(slave, 'slave.js', 2, says),
        assertOneLine(ask, 'master.js', 2, says),
      ]);
    });
  }

  test('an authkey file that must not be read', { skip: process.getuid?.() === 0 }, async (t) => {
    const { cluster } = alone(t);
    writeFileSync(join(cluster.folder, 'k'), key);
    chmodSync(join(cluster.folder, 'k'), 0);
    const slave = cluster.run(['slave.js', '--authkey-file', 'k']);
    await assertOneLine(slave, 'slave.js', 2, /cannot read the authkey file k: EACCES/);
  });
});

describe('options: flags > environment > config file > defaults', { concurrency: 2 }, () => {
  test('of the master', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(1));
    const { cluster } = alone(t);
    writeFileSync(
      join(cluster.folder, 'c.yaml'),
      [
        'user-agent: from-config',
        'exit-when-done: true',
        'listen: 127.0.0.1:0',
        'crawl: from-config',
        'out: out-of-config',
        'exclude: [never-this, "/1$"]',
        'max-depth: 1',
      ].join('\n'),
    );
    const env = { ORB_USER_AGENT: 'from-env', ORB_CRAWL: 'from-env', ORB_JSON_LOGS: 'false' };
    const args = [site.url, '--config', 'c.yaml', '--user-agent', 'from-flag', '--data', 'data'];
    const master = cluster.run(['master.js', ...args], { env });
    await master.said(/listens on/);
    await assertLeaves(master, cluster.slave());
    assert.deepEqual(
      site.log.map(({ path, userAgent }) => [path, userAgent]),
      [['/', 'from-flag']],
    );
    const lines = readFileSync(join(cluster.folder, 'out-of-config/from-env/pages.jsonl'), 'utf8');
    assert.equal(lines.split('\n').length, 2);
    assert.match(master.stdout, /^\d\d:/, 'ORB_JSON_LOGS=false is no');
  });

  test('of the authkey: a flag, ORB_AUTHKEY_FILE or ORB_AUTHKEY, then the config file', {
    timeout,
  }, async (t) => {
    const { cluster } = alone(t);
    const mode = 0o600;
    writeFileSync(join(cluster.folder, 'env.key'), 'the-key-of-the-environment', { mode });
    writeFileSync(join(cluster.folder, 'config.key'), 'the-key-of-the-config-file', { mode });
    writeFileSync(join(cluster.folder, 'c.yaml'), 'authkey-file: config.key\n');
    const args = ['--listen', '127.0.0.1:0', '--data', 'data', '--config', 'c.yaml'];
    const env = { ORB_AUTHKEY: 'the-key-of-the-environment' };
    const master = cluster.run(['master.js', ...args], { env });
    await master.said(/listens on/);
    const where = ['--master', cluster.address];
    const byFlag = ['--authkey-file', 'env.key'];
    const options = { env: { ORB_AUTHKEY: 'no key of anything at all' } };
    const ask = cluster.run(['master.js', 'status', ...where, ...byFlag], options);
    assert.equal((await ask.exited).code, 0, ask.output);
  });

  test('of the slave', { timeout }, async (t) => {
    const { cluster, master } = await running(t);
    const options = { env: { ORB_NAME: 'from-env', ORB_MASTER: cluster.address, ORB_SLOTS: '3' } };
    const file = ['--authkey-file', join(cluster.data, 'authkey')];
    cluster.run(['slave.js', ...file], options);
    await master.said(/slave joined.*slave=from-env/);
    cluster.run(['slave.js', ...file, '--name', 'from-flag'], options);
    await master.said(/slave joined.*slave=from-flag/);
  });
});

describe('help: every option with its default, exit code 0', { concurrency: 2 }, () => {
  const crawl = ['scope', 'include', 'exclude', 'max-depth', 'max-pages', 'order', 'delay'].concat(
    [
      'per-host',
      'images',
      'attempts',
      'fetch-timeout',
      'connect-timeout',
      'page-bytes',
      'redirects',
    ],
    ['user-agent', 'rule-bytes', 'archive', 'archive-bytes', 'archive-file-bytes', 'output'],
    [
      'allow-private',
      'crawl-delay-max',
      'ignore-robots',
      'urls-expected',
      'srcset',
      'lazy-attributes',
      'header',
      'header-everywhere',
      'cookie',
      'cookie-file',
      'contact',
      'proxy',
      'http2',
      'obey',
      'iframes',
      'ignore-refresh',
    ],
    ['digest', 'canonical', 'traps', 'sitemaps', 'sitemap-since'],
    ['every', 'keep', 'save', 'render', 'download', 'images-to', 'max-images'],
  );
  const serve = ['listen', 'data', 'out', 'crawl', 'authkey-file', 'slaves', 'config'].concat(
    ['exit-when-done'],
    ['auth-digest', 'tls', 'tls-cert', 'tls-key', 'connections', 'connections-per-address'],
    ['compact', 'only', 'seeds', 'queues', 'durable-put', 'politeness-group', 'disk-reserve'],
    ['sink-backlog'],
    ['memory-limit', 'recent-urls', 'status-every', 'json-logs', 'log-level', ...crawl],
  );
  const join = ['master', 'authkey-file', 'tls', 'no-tls', 'tls-ca'];
  const ask = [...join, 'json'];
  const slave = [...join, 'slots', 'processes', 'robots-only', 'page', 'name'].concat(
    ['join-timeout', 'allow-exec', 'exec-folder', 'exec-user', 'exec-slots', 'exec-timeout'],
    ['exec-cpu', 'exec-memory', 'exec-processes', 'exec-file-size', 'exec-disk', 'exec-output'],
    ['browser', 'browser-program', 'no-sandbox'],
  );
  // `set` says why they cannot change.
  const fixed = ['order', 'canonical', 'images', 'srcset', 'lazy-attributes', 'urls-expected'];
  const isFixed = (name: string) =>
    [...fixed, 'archive', 'save', 'download', 'images-to'].includes(name);
  const screens: readonly (readonly [string[], string[]])[] = [
    [['master.js'], serve],
    [['slave.js'], [...slave, 'json-logs', 'log-level']],
    [
      ['master.js', 'add'],
      [...ask, 'priority', 'crawl', 'seeds', ...crawl],
    ],
    [
      ['master.js', 'recrawl'],
      [...ask, 'as', 'pages', 'refetch', ...crawl],
    ],
    [
      ['master.js', 'set'],
      [...ask, ...crawl.filter((name) => !isFixed(name))],
    ],
    [
      ['master.js', 'status'],
      [...ask, 'crawl', 'state', 'sort', 'all', 'ledger', 'verify', 'data', 'out'],
    ],
    [['master.js', 'pause'], ask],
    [
      ['master.js', 'resume'],
      [...ask, 'new-files'],
    ],
    [['master.js', 'cancel'], ask],
    [
      ['master.js', 'buried'],
      [...ask, 'replay', 'url'],
    ],
  ];
  const hasNoDefault = new RegExp(
    ' -h| -V|--config|--include|--exclude|--url <|--replay|--json |--as ' +
      '|--state|--sort|show only',
  );
  for (const [command, options] of screens) {
    test(`${command.join(' ')} --help`, { timeout }, async (t) => {
      const { cluster } = alone(t);
      const help = cluster.run([...command, '--help'], {});
      assert.deepEqual(await help.exited, { code: 0, signal: null });
      assert.equal(help.stderr, '');
      const listed = [...help.stdout.matchAll(/^ {2}(?:-\w, )?--([a-z\d-]+)/gm)].map(([, n]) => n);
      const expected = [...options, 'help', ...(command.length === 1 ? ['version'] : [])];
      assert.deepEqual(listed.toSorted(), expected.toSorted(), 'each once, and no other');
      for (const entry of entriesOf(help.stdout)) {
        if (hasNoDefault.test(entry)) continue;
        assert.match(entry, /default|ORB_AUTHKEY/, `${entry} has no default`);
      }
    });
  }

  test('--version', { timeout }, async (t) => {
    const { cluster } = alone(t);
    for (const program of ['master.js', 'slave.js']) {
      const help = cluster.run([program, '--help']);
      await help.exited;
      // Examples come first, commands before options, and the long list is in groups.
      const order = program === 'master.js' ? ['Commands:', 'Options:'] : ['Options:'];
      const headings = ['Usage:', 'Examples:', ...order, 'Connections and keys:', 'Log:'];
      const places = headings.map((heading) => `\n${help.stdout}`.indexOf(`\n${heading}`));
      assert.deepEqual(
        places,
        places.toSorted((a, b) => a - b),
      );
      assert.ok(
        places.every((place) => place >= 0),
        `${places}`,
      );
      const said = cluster.run([program, '--version']);
      assert.equal((await said.exited).code, 0);
      assert.match(said.stdout, /^\d+\.\d+\.\d+\n$/);
    }
  });
});

async function assertOneLine(
  program: Program,
  name: string,
  code: number,
  says: RegExp,
): Promise<void> {
  const exit = await program.exited;
  const { stderr, output } = program;
  assert.match(stderr, /^[^\n]+\n$/, `one line on stderr:\n${output}`);
  assert.ok(stderr.startsWith(`${name.replace('.js', '')}: `), stderr);
  assert.match(stderr, says);
  assert.deepEqual(exit, { code, signal: null }, output);
  assert.doesNotMatch(output, /\n\s+at /, 'no stack');
}

function config(text: string): Pick<Case, 'args' | 'files'> {
  return { args: ['--config', 'c.yaml'], files: { 'c.yaml': `${text}\n` } };
}

function certificate(cert: string, key: string): Pick<Case, 'args' | 'files'> {
  const args = ['--tls-cert', 'c.pem', '--tls-key', 'k.pem'];
  return { args, files: { 'c.pem': cert, 'k.pem': key } };
}

function alone(t: TestContext): { cluster: Cluster } {
  return { cluster: new Cluster(t) };
}

async function running(t: TestContext): Promise<{ cluster: Cluster; master: Program }> {
  const { cluster } = alone(t);
  return { cluster, master: await cluster.master([]) };
}

/** Listens during the test; undefined: an HTTP server. Returns the port. */
async function listen(t: TestContext, talk?: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server: Server = talk
    ? createServer(talk)
    : createHttpServer((_, response) => response.end());
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

function talkOf(kind: 'silent' | 'ssh' | 'closing'): (socket: Socket) => void {
  if (kind === 'silent') return () => {};
  if (kind === 'closing') return (socket) => socket.end();
  return (socket) => socket.write('SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n');
}

/** A master of a version that is to come. */
function refuseVersion(socket: Socket): void {
  const handshake = new ServerHandshake([Buffer.from(key)]);
  const connection = new Connection(socket, handshake, {
    onOpen: () => {},
    onPayload: (payload) => {
      const { id } = decodeValue(payload) as { id: number };
      const message =
        'this master speaks protocol 7, the peer 1; use the same version of Orbweaver on both sides';
      connection.send({ id, ok: false, error: 'E_VERSION', message });
      connection.close();
    },
    onClose: () => {},
  });
  connection.sendPayload(handshake.start());
}

/** The text of each option in a help screen, in one line. */
function entriesOf(help: string): string[] {
  const options = help.slice(help.indexOf('Options:')).replace(/\n\nCrawl options[^\n]*/, '');
  return options
    .split(/\n\n\S[^\n]*:(?=\n)|\n(?= {2}-)/)
    .filter((entry) => entry.startsWith('  -'))
    .map((entry) => entry.replace(/\s+/g, ' '));
}

before(() => {
  for (const name of Object.keys(process.env))
    if (name.startsWith('ORB_')) delete process.env[name];
});
