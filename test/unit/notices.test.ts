import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { Notices } from '../../master/cli/notices.ts';
import type { ServeOptions } from '../../master/cli/serve-options.ts';
import type { Crawl } from '../../master/frontier/crawl/crawl.ts';
import { crawlSpecSchema } from '../../shared/crawl.ts';
import { AuthError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';

const error = new AuthError('the authkey was refused');

function told(given: readonly string[] = ['iframes']): {
  notices: Notices;
  lines: string[];
  at: (ms: number) => void;
} {
  const lines: string[] = [];
  let now = 0;
  const warn = (fields: object, text: string) => lines.push(`${text} ${JSON.stringify(fields)}`);
  const options = { given: new Set(given) } as unknown as ServeOptions;
  const notices = new Notices({ warn } as unknown as Logger, options, () => now);
  return {
    notices,
    lines,
    at: (ms) => {
      now = ms;
    },
  };
}

test('notices: the command that starts a slave is one for a shell', () => {
  const lines: string[] = [];
  const info = (...said: unknown[]) => lines.push(String(said.at(-1)));
  const authkeyFile = "/srv/my data/it's/authkey";
  const options = { dataFolder: '/srv', host: '127.0.0.1', authkeyFile };
  const log = { info } as unknown as Logger;
  new Notices(log, options as unknown as ServeOptions).listening(6666, false);
  const [, command = ''] = /^start a slave with: node slave\.js (.*)$/.exec(lines[1] ?? '') ?? [];
  const words = execFileSync('sh', ['-c', `printf '%s\\n' ${command}`], { encoding: 'utf8' });
  assert.equal(words, `--master\n127.0.0.1:6666\n--authkey-file\n${authkeyFile}\n`);
});

test('notices: no slave is told to find the id of a container', () => {
  const said = (host: string, own: string) => {
    const lines: string[] = [];
    const log = { info: (...all: unknown[]) => lines.push(String(all.at(-1))) };
    const options = { dataFolder: '/d', host, authkeyFile: '/d/authkey' };
    const given = [log as unknown as Logger, options as unknown as ServeOptions] as const;
    new Notices(...given, undefined, own).listening(6666, false);
    return /--master (\S+)/.exec(lines[1] ?? '')?.[1];
  };
  assert.equal(said('0.0.0.0', '3f2a01bc99de'), 'host:6666');
  assert.equal(said('0.0.0.0', 'crawl-1'), 'crawl-1:6666');
  assert.equal(said('10.0.0.7', '3f2a01bc99de'), '10.0.0.7:6666');
});

test('notices: refusals of an address are told three times, then whenever they double', () => {
  const { notices, lines } = told();
  for (let times = 1; times <= 40; times++) notices.refused('10.0.0.1:5', error, times);
  const counts = lines.map((line) => /"times":(\d+)/.exec(line)?.[1]);
  assert.deepEqual(counts, [undefined, undefined, undefined, '4', '8', '16', '32']);
});

test('notices: any number of addresses gets 60 lines a minute, and then their count', () => {
  const { notices, lines, at } = told();
  for (let i = 0; i < 1_000; i++) {
    notices.refused(`10.0.${i >> 8}.${i & 255}:5`, error, 1);
    notices.refusedPickle(`10.0.${i >> 8}.${i & 255}:5`, error, 1);
  }
  assert.equal(lines.length, 60);
  at(60_000);
  notices.refused('10.1.0.1:5', error, 1);
  assert.equal(lines.length, 62);
  assert.match(lines[60] ?? '', /"count":1940/);
});

test('notices: an option that a stored crawl does not know is no other option', () => {
  const { notices, lines } = told();
  const spec = crawlSpecSchema.parse({});
  const { iframes: _, ...fetch } = spec.fetch;
  const crawl = { name: 'c', spec: { ...spec, fetch } } as unknown as Crawl;
  notices.otherSpec(crawl, spec);
  assert.deepEqual(lines, []);
  notices.otherSpec(crawl, crawlSpecSchema.parse({ fetch: { iframes: true } }));
  assert.match(lines[0] ?? '', /"ignored":\["--iframes"\]/);
});

test('notices: only options that were given are named, and as they are written', () => {
  const kept = crawlSpecSchema.parse({ maxPages: 50, maxDepth: 3, delayMs: 100 });
  const crawl = { name: 'c', spec: kept } as unknown as Crawl;
  const spec = crawlSpecSchema.parse({ maxDepth: 3, fetch: { userAgent: 'me (+a@b.example)' } });
  const { notices, lines } = told(['maxDepth', 'contact', 'data']);
  notices.otherSpec(crawl, spec);
  assert.deepEqual(lines.length, 1);
  assert.match(lines[0] ?? '', /"ignored":\["--contact"\]/);
  const again = told([]);
  again.notices.otherSpec(crawl, crawlSpecSchema.parse({}));
  assert.deepEqual(again.lines, []);
});

test('notices: what no flag can say, such as a login, cannot be set', () => {
  const crawl = { name: 'c', spec: crawlSpecSchema.parse({}) } as unknown as Crawl;
  const { notices, lines } = told(['login', 'order', 'delay']);
  const login = { url: 'https://a.example/', form: 'form', fields: { a: 'b' }, until: 'b' };
  const spec = crawlSpecSchema.parse({ delayMs: 7, order: 'dfs' });
  notices.otherSpec(crawl, { ...spec, fetch: { ...spec.fetch, login } } as typeof spec);
  const how =
    'to change them, run `set c --delay …`; --order, login cannot change: choose another --crawl';
  assert.equal(lines[0]?.split(' {')[0], `the crawl keeps the options that it has; ${how}`);
});
