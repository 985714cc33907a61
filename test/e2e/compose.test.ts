/**
 * docker-compose.yml without an engine: its text is checked, and each service's command is run with
 * its environment as processes. The test replaces the engine: volumes are folders, the name
 * `master` is this machine, the port is a free one, dependants wait for health.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import * as z from 'zod';
import { type Line, Program } from '../support/cluster.ts';
import { demoTruth, startDemo } from '../support/demo.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));

const serviceSchema = z.object({
  image: z.string(),
  build: z.string().optional(),
  pull_policy: z.string().optional(),
  user: z.string(),
  init: z.boolean(),
  restart: z.string(),
  read_only: z.boolean(),
  command: z.array(z.string()).min(2),
  // An engine fills variables in after it has parsed, so to it they are all text. One without a
  // value is handed on if it is set.
  environment: z.record(
    z.string(),
    z.union([z.null(), z.coerce.string()]).transform((value) => value ?? undefined),
  ),
  volumes: z.array(z.string()),
  stop_grace_period: z.string().optional(),
  tmpfs: z.array(z.string()).optional(),
  ports: z.array(z.string()).optional(),
  container_name: z.string().optional(),
  // Strict: engines before 25 refuse `start_interval`.
  healthcheck: z
    .strictObject({
      test: z.array(z.string()).min(2),
      interval: z.string(),
      timeout: z.string(),
      retries: z.number(),
      start_period: z.string(),
    })
    .optional(),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).optional(),
  deploy: z.object({ replicas: z.coerce.string() }).optional(),
});
type Service = z.infer<typeof serviceSchema>;

const serviceNames = ['folders', 'master', 'slave'] as const;
const { services } = z
  .object({ services: z.record(z.enum(serviceNames), serviceSchema) })
  .parse(
    parse(withDefaults(readFileSync(join(root, 'docker-compose.yml'), 'utf8')), { merge: true }),
  );

/** `${NAME:-default}` as in a shell where NAME is not set. */
function withDefaults(text: string): string {
  return text.replace(/\$\{[A-Z_]+:-([^}]*)\}/g, '$1');
}

function volumeAt(service: Service, path: string) {
  const mounts = service.volumes.map((volume) => volume.split(':'));
  const [name, , mode] = mounts.find(([, target]) => target === path) ?? [];
  return { name, isReadOnly: mode === 'ro' };
}

describe('docker-compose.yml', () => {
  for (const name of ['master', 'slave'] as const) {
    const service = services[name];
    test(`${name}: one image, not root, restarted, signals passed on`, () => {
      assert.equal(service.image, 'orbweaver');
      assert.equal(service.user, 'node');
      assert.equal(service.restart, 'unless-stopped');
      assert.equal(service.init, true);
      assert.equal(service.read_only, true);
      assert.match(service.stop_grace_period ?? '', /^\d+s$/);
      assert.deepEqual(service.command, ['node', `${name}.js`]);
    });
  }

  test('the authkey is shared: slaves only read it', () => {
    const ofMaster = volumeAt(services.master, '/authkey');
    const ofSlave = volumeAt(services.slave, '/authkey');
    assert.equal(ofMaster.name, ofSlave.name);
    assert.equal(ofMaster.isReadOnly, false);
    assert.equal(ofSlave.isReadOnly, true);
    assert.equal(services.slave.volumes.length, 1, 'slaves see neither the store nor the results');
  });

  test('one service builds the image, the others use it and ask no registry', () => {
    const { master, slave, folders } = services;
    assert.deepEqual([master.build, slave.build, folders.build], ['.', undefined, undefined]);
    assert.deepEqual([slave.pull_policy, folders.pull_policy], ['never', 'never']);
    assert.equal(new Set(serviceNames.map((name) => services[name].image)).size, 1);
  });

  test('a slave whose container is read only has room for the folders of its jobs', () => {
    assert.deepEqual(services.slave.tmpfs, ['/tmp']);
  });

  test('every option of a program is a variable that its service hands on', () => {
    for (const name of ['master', 'slave'] as const) {
      const { environment } = services[name];
      const help = execFileSync(process.execPath, [join(root, `${name}.js`), '--help'], {
        encoding: 'utf8',
      });
      const options = new Set(help.match(/\bORB_[A-Z0-9_]+/g));
      assert.ok(options.size > 5);
      assert.deepEqual(
        [...options].filter((option) => !(option in environment)),
        [],
        'run node scripts/options.mjs',
      );
      // The addresses and folders are the service's own.
      const own = Object.keys(environment).filter((option) => environment[option] !== undefined);
      const fixed = ['ORB_LISTEN', 'ORB_DATA', 'ORB_OUT', 'ORB_AUTHKEY_FILE', 'ORB_MASTER'];
      const ofSlave = ['ORB_MASTER', 'ORB_AUTHKEY_FILE', 'ORB_JOIN_TIMEOUT'];
      assert.deepEqual(own, name === 'master' ? fixed : ofSlave);
    }
  });

  test('the time zone of the operator is handed on', () => {
    for (const name of ['master', 'slave'] as const) assert.ok('TZ' in services[name].environment);
  });

  test('results go to a folder of the host, which belongs to whom the programs run as', (t) => {
    const { folders, master } = services;
    assert.equal(volumeAt(master, '/out').name, './crawl-data');
    assert.equal(volumeAt(folders, '/out').name, './crawl-data');
    assert.deepEqual(Object.keys(master.depends_on ?? {}), ['folders']);
    assert.equal(master.depends_on?.['folders']?.condition, 'service_completed_successfully');
    if (process.getuid?.() !== 0) return t.skip('only root gives folders away');
    const folder = mkdtempSync(join(tmpdir(), 'orbweaver-folders-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const ownersAfter = (outOwner: number) => {
      for (const name of ['authkey', 'data', 'out'])
        mkdirSync(join(folder, name), { recursive: true });
      chownSync(join(folder, 'out'), outOwner, outOwner);
      const [sh, ...args] = folders.command.map((text) =>
        text.replaceAll('$$', '$').replace(/(?<!\w)\/(authkey|data|out)\b/g, `${folder}/$1`),
      );
      execFileSync(sh ?? '', args, { env: { ...process.env, ORB_USER: '1234:1234' } });
      return ['authkey', 'data', 'out'].map((name) => statSync(join(folder, name)).uid);
    };
    assert.deepEqual(ownersAfter(0), [1234, 1234, 1234]);
    const authkey = join(folder, 'authkey/authkey');
    assert.equal(statSync(authkey).mode & 0o777, 0o600);
    const key = readFileSync(authkey, 'utf8');
    assert.match(key, /^[\w+/]{32}\n$/);
    // The operator's own folder stays his, and the key what it was.
    assert.deepEqual(ownersAfter(1001), [1234, 1234, 1001]);
    assert.equal(readFileSync(authkey, 'utf8'), key);
  });

  test('state and results outlive the container', () => {
    const { environment } = services.master;
    assert.notEqual(volumeAt(services.master, environment['ORB_DATA'] ?? '').name, undefined);
    assert.notEqual(volumeAt(services.master, environment['ORB_OUT'] ?? '').name, undefined);
  });

  test('slaves wait for the master by themselves, and can be scaled', () => {
    // Podman asks for its health only where there is systemd.
    assert.equal(services.slave.depends_on?.['master']?.condition, 'service_started');
    assert.equal(services.slave.environment['ORB_JOIN_TIMEOUT'], '86400');
    assert.equal(services.master.healthcheck?.test[0], 'CMD', 'no shell');
    assert.equal(services.slave.container_name, undefined);
    assert.equal(services.slave.ports, undefined);
  });

  test('a later `up` starts as many slaves: their number can stand in .env', () => {
    const text = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
    const raw = z
      .object({ services: z.object({ slave: serviceSchema }) })
      .parse(parse(text, { merge: true }));
    assert.match(raw.services.slave.deploy?.replicas ?? '', /^\$\{ORB_SCALE:-\d\}$/);
  });

  test('nobody outside this machine reaches the port unless told to', () => {
    assert.deepEqual(services.master.ports, ['127.0.0.1:6666:6666']);
  });
});

describe('the services as processes', { timeout: 120_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-compose-'));
  const programs: Program[] = [];
  let port = 0;

  before(async () => {
    for (const name of ['authkey', 'data', 'crawl-data']) mkdirSync(join(folder, name));
    port = await freePort();
  });
  after(async () => {
    for (const program of programs) await program.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Runs a command in a service's place. */
  function run(service: Service, command: readonly string[] = service.command): Program {
    const here = (text: string) => {
      const address = text.replace(
        /^(?:master|0\.0\.0\.0|127\.0\.0\.1):6666$/,
        `127.0.0.1:${port}`,
      );
      const mount = service.volumes.map((volume) => volume.split(':'));
      const [name, target] =
        mount.find(([, path]) => path && `${text}/`.startsWith(`${path}/`)) ?? [];
      return name && target ? join(folder, basename(name)) + text.slice(target.length) : address;
    };
    const [node, script = '', ...args] = command;
    assert.equal(node, 'node');
    const env = Object.fromEntries(
      Object.entries(service.environment).map(([name, value]) => [name, value && here(value)]),
    );
    const program = new Program([join(root, script), ...args.map(here)], { cwd: folder, env });
    programs.push(program);
    return program;
  }

  async function output(command: readonly string[]): Promise<string> {
    const program = run(services.master, command);
    assert.deepEqual(await program.exited, { code: 0, signal: null }, program.output);
    return program.output;
  }

  /** As the engine asks again and again; a program that has ended is not waited for. */
  async function healthy(master: Program): Promise<void> {
    const [, ...command] = services.master.healthcheck?.test ?? [];
    while (master.isAlive) {
      const probe = run(services.master, command);
      if ((await probe.exited).code === 0) return;
      await sleep(200);
    }
    assert.fail(`the master ended: ${master.output}`);
  }

  async function finished(): Promise<void> {
    const statusSchema = z.object({ crawls: z.array(z.object({ state: z.string() })) });
    for (;;) {
      const text = await output(['node', 'master.js', 'status', '--json']);
      const { crawls } = statusSchema.parse(JSON.parse(text));
      if (crawls.length > 0 && crawls.every(({ state }) => state === 'finished')) return;
      await sleep(200);
    }
  }

  test('two slaves crawl the demo site that `add` names, and find all of it', async () => {
    const demo = await startDemo();
    try {
      const truth = await demoTruth(demo.url);
      const master = run(services.master);
      await healthy(master);
      assert.equal(statSync(join(folder, 'authkey', 'authkey')).mode & 0o777, 0o600);
      const slaves = [run(services.slave), run(services.slave)];
      await output(['node', 'master.js', 'add', demo.url]);
      await finished();

      const lines = (name: string) =>
        readFileSync(join(folder, 'crawl-data', 'default', name), 'utf8')
          .trim()
          .split('\n');
      const fetched = lines('pages.jsonl').map((line) => JSON.parse(line) as Line);
      const pages = fetched.filter(({ images }) => images !== undefined);
      assert.deepEqual(pages.map(({ finalUrl }) => finalUrl).sort(), truth.pages);
      for (const { finalUrl, title, charset } of pages) {
        assert.equal(title, truth.titles[finalUrl], finalUrl);
        assert.equal(charset, truth.charsets[finalUrl], finalUrl);
      }
      const images = new Set([...truth.images, ...truth.srcset]);
      assert.deepEqual(lines('img_src.txt').sort(), [...images].sort());
      const failed = fetched.filter(({ error }) => error !== undefined).map(({ url }) => url);
      assert.deepEqual(failed.sort(), truth.broken);

      for (const slave of slaves) assert.equal((await slave.kill('SIGTERM')).code, 0, slave.output);
      assert.equal((await master.kill('SIGTERM')).code, 0, master.output);
    } finally {
      await demo.close();
    }
  });
});

test('image: its packages are complete, and all that is optional is among them', {
  timeout: 60_000,
}, () => {
  const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8').replaceAll('\\\n', ' ');
  const [, names = ''] = /copy-package\.mjs +(.+?) +\/runtime\/node_modules/.exec(dockerfile) ?? [];
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-image-'));
  try {
    const script = join(root, 'scripts/copy-package.mjs');
    const target = join(folder, 'node_modules');
    execFileSync(process.execPath, [script, ...names.split(/ +/), target]);
    const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      peerDependencies: Record<string, string>;
    };
    // Types are not for programs, and the Node of the image has SQLite.
    const left = ['@types/node', 'libsql'];
    const wanted = Object.keys(peerDependencies).filter((name) => !left.includes(name));
    const loads = ['lmdb', ...wanted].map((name) => `await import(${JSON.stringify(name)});`);
    const program = `${loads.join('')}process.exit(0)`;
    execFileSync(process.execPath, ['--input-type=module', '-e', program], { cwd: folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert(typeof address === 'object' && address !== null);
  server.close();
  await once(server, 'close');
  return address.port;
}
