/** The log of both programs. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';

const log = new URL('../../shared/log.js', import.meta.url);

test('log: a reader that stands still costs no memory, and hears how much it missed', {
  timeout: 20_000,
}, async () => {
  const program = `
    const { makeLog } = await import(${JSON.stringify(log)});
    const log = makeLog({ level: 'info', json: false });
    for (let i = 0; i < 50_000; i++) log.info('x'.repeat(90));
    process.send(process.stdout.writableLength);
    process.on('message', () => {
      // When all that was written is read.
      process.stdout.write('', () => {
        log.info('the last line');
        process.disconnect();
      });
    });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const [waiting] = (await once(child, 'message')) as [number];
  assert.ok(waiting < 2 << 20, `${waiting} bytes wait`);
  let text = '';
  let isAsked = false;
  for await (const chunk of child.stdout ?? []) {
    text += String(chunk);
    if (!isAsked && text.length >= waiting) isAsked = child.send('go on');
  }
  const lines = text.trimEnd().split('\n');
  assert.match(lines.at(-1) ?? '', /the last line$/);
  const [, missed = ''] =
    /error nobody read the log: ([\d,]+) lines left out$/.exec(lines.at(-2) ?? '') ?? [];
  assert.equal(Number(missed.replaceAll(',', '')) + lines.length - 2, 50_000);
});
