/** The pipe to the browser: what comes in pieces, is too long, or is no message; and the flags on
 *  which the guard of its addresses rests. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { BrowserFolder, removeLeftFolders } from '../../slave/browser/browser-folder.ts';
import { DevTools, type Heard } from '../../slave/browser/devtools.ts';
import { browserFlags } from '../../slave/browser/flags.ts';
import { MessagePipe } from '../../slave/browser/message-pipe.ts';

/** Both ends of a pipe, and what was heard. */
function pipe(bytesMax: number) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const texts: string[] = [];
  const tooLong: string[] = [];
  let ends = 0;
  const made = new MessagePipe({
    input,
    output,
    bytesMax,
    isWanted: (head) => !head.startsWith('no'),
    onText: (text) => texts.push(text),
    onTooLong: (head) => tooLong.push(head),
    onEnd: () => ends++,
  });
  return { made, input, output, texts, tooLong, ends: () => ends };
}

/** Messages are taken in the next turns of the loop. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 1));

test('browser: texts come whole, however they are cut', async () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 30 }).filter((one) => !one.includes('\0'));
  await fc.assert(
    fc.asyncProperty(fc.array(text), fc.array(fc.nat(40)), async (all, cuts) => {
      const { input, texts, made } = pipe(1_000);
      const bytes = Buffer.from(all.map((one) => `${one}\0`).join(''));
      let from = 0;
      for (const length of cuts) {
        input.write(bytes.subarray(from, from + length));
        from += length;
      }
      input.write(bytes.subarray(from));
      await settled();
      assert.deepEqual(
        texts,
        all.filter((one) => !one.startsWith('no')),
      );
      made.close();
    }),
    { numRuns: 60 },
  );
});

test('browser: a text that is too long takes no memory, and the next one counts', async () => {
  const { input, texts, tooLong, ends } = pipe(100);
  input.write('{"id":7,');
  const before = process.memoryUsage().arrayBuffers;
  const part = Buffer.alloc(1 << 20, 'x');
  for (let i = 0; i < 200; i++) if (!input.write(part)) await settled();
  assert.ok(process.memoryUsage().arrayBuffers - before < 20 << 20);
  input.write('\0next\0');
  await settled();
  assert.deepEqual([texts, tooLong.length, ends()], [['next'], 1, 0]);
  assert.match(tooLong[0] ?? '', /^\{"id":7,x+$/);
});

test('browser: calls end with their answer, an error, or the pipe', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  let isEnded = false;
  const devtools = new DevTools(input, output, () => {
    isEnded = true;
  });
  const heard: Heard[] = [];
  devtools.listen('s', (one) => heard.push(one));
  const call = () => devtools.call('Page.enable', {}, 's');
  const calls = [call(), call(), call(), devtools.call('Browser.close', {})];
  const ends = Promise.allSettled(calls);
  input.write('{"id":1,"result":{},"sessionId":"s"}\0{"id":2,"error":{"message":"no such"}}\0');
  input.write('{"method":"Network.dataReceived","params":{},"sessionId":"s"}\0');
  input.write('{"method":"Inspector.targetCrashed","params":{},"sessionId":"s"}\0');
  await settled();
  assert.deepEqual(heard, [{ name: 'Inspector.targetCrashed', params: {} }]);
  devtools.drop('s');
  assert.equal(isEnded, false);
  input.end();
  const said = (await ends).map((one) => (one.status === 'rejected' ? one.reason.message : 'ok'));
  assert.deepEqual(said, ['ok', 'no such', 'the page is gone', 'the browser ended']);
  assert.equal(isEnded, true);
  await assert.rejects(call(), /the browser ended/);
  assert.equal(
    String(output.read()).split('\0')[0],
    '{"id":1,"method":"Page.enable","params":{},"sessionId":"s"}',
  );
});

test('browser: what is no message ends the pipe', async () => {
  for (const bad of ['hello', 'null', '[', '\x7fELF', '{"id":1', '7']) {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const devtools = new DevTools(input, output, () => {});
    const asked = devtools.call('Browser.close', {});
    input.write(`${bad}\0`);
    if (bad !== '7') await assert.rejects(asked, /the browser ended/, bad);
    else devtools.close();
    await asked.catch(() => {});
  }
});

test('browser: its flags leave no way around the proxy', () => {
  const settings = {
    folder: '/tmp/x',
    isSandboxed: true,
    proxy: 'http://127.0.0.1:1',
    userAgent: 'x',
  };
  const flags = browserFlags(settings);
  for (const flag of [
    ...['--proxy-server=http://127.0.0.1:1', '--proxy-bypass-list=<-loopback>', '--disable-quic'],
    ...['--force-webrtc-ip-handling-policy=disable_non_proxied_udp', '--dns-prefetch-disable'],
    ...['--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1', '--user-data-dir=/tmp/x'],
  ]) {
    assert.ok(flags.includes(flag), flag);
  }
  // Chromium takes the last of two.
  const names = flags.map((flag) => flag.replace(/=.*/, ''));
  assert.deepEqual(
    names.filter((name, i) => names.indexOf(name) !== i),
    [],
  );
  assert.ok(!flags.includes('--no-sandbox'));
  assert.ok(browserFlags({ ...settings, isSandboxed: false }).includes('--no-sandbox'));
});

/** Has a process make folders, and kills it when it has. Their names. */
async function killedWith(base: string, count: number): Promise<string[]> {
  const module = new URL('../../slave/browser/browser-folder.js', import.meta.url).href;
  const text = `import { BrowserFolder } from '${module}';
    for (let n = 0; n < ${count}; n++) new BrowserFolder(process.argv[1]);
    console.log('made');
    setInterval(() => {}, 1_000);`;
  const before = readdirSync(base);
  const child = spawn(process.execPath, ['--input-type=module', '-e', text, base]);
  await once(child.stdout, 'data');
  const made = readdirSync(base).filter((name) => !before.includes(name));
  await removeLeftFolders(base);
  for (const name of made) assert.ok(readdirSync(base).includes(name), 'it is in use');
  child.kill('SIGKILL');
  await once(child, 'exit');
  return made;
}

test('browser: the folder of a killed slave goes, what is in use or another\u2019s stays', async (t) => {
  const base = mkdtempSync(join(tmpdir(), 'orb-folders-'));
  t.after(() => rmSync(base, { recursive: true, force: true }));
  const [left = '', open = '', linked = ''] = await killedWith(base, 3);
  mkdirSync(join(base, left, 'profile', 'Default'));
  symlinkSync(tmpdir(), join(base, left, 'profile', 'link'));
  chmodSync(join(base, open), 0o777);
  renameSync(join(base, linked), join(base, 'elsewhere'));
  symlinkSync(join(base, 'elsewhere'), join(base, linked));
  // Its slave has not come to its socket yet.
  const early = `${left.slice(0, -6)}early1`;
  mkdirSync(join(base, early), { mode: 0o700 });
  const used = new BrowserFolder(base);
  const names = readdirSync(base);
  await Promise.all([removeLeftFolders(base), removeLeftFolders(base)]);
  assert.deepEqual(
    readdirSync(base),
    names.filter((name) => name !== left),
  );
  assert.deepEqual(readdirSync(join(base, 'elsewhere')), ['alive', 'profile']);
  assert.deepEqual(readdirSync(used.profile), []);
  await used.remove();
  assert.equal(readdirSync(base).length, names.length - 2);
});

test('browser: the folder with its own socket goes, too, and no other folder', async (t) => {
  const base = mkdtempSync(join(tmpdir(), 'orb-folders-'));
  t.after(() => rmSync(base, { recursive: true, force: true }));
  for (const name of ['org.chromium.Chromium.abc123', 'another.abc123']) {
    const own = join(base, name);
    mkdirSync(own, { mode: 0o700 });
    const socket = join(own, 'SingletonSocket');
    writeFileSync(socket, '');
    symlinkSync('1', join(own, 'SingletonCookie'));
    const folder = new BrowserFolder(base);
    symlinkSync(socket, join(folder.profile, 'SingletonSocket'));
    folder.started();
    // The browser was about to end.
    rmSync(join(folder.profile, 'SingletonSocket'));
    await folder.remove();
  }
  assert.deepEqual(readdirSync(base), ['another.abc123']);
  assert.equal(readdirSync(join(base, 'another.abc123')).length, 2);
});
