/** `node master.js selftest` runs this file, built as `selftest.js` in the same folder. */
import { fileURLToPath } from 'node:url';
import { runMain } from '../shared/cli.ts';
import { chaos } from './chaos.ts';
import { parseOptions } from './options.ts';

await runMain('selftest', async () => {
  const ended = new AbortController();
  const options = parseOptions(process.argv.slice(process.argv.indexOf('selftest') + 1));
  // Settings of the user's own master must not affect the test.
  for (const name of Object.keys(process.env)) {
    if (name.startsWith('ORB_')) delete process.env[name];
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (ended.signal.aborted) process.exit(1);
      ended.abort();
    });
  }
  const isClean = await chaos({
    ...options,
    programs: fileURLToPath(new URL('.', import.meta.url)),
    signal: ended.signal,
    print: (line) => console.log(line),
  });
  process.exitCode = isClean ? 0 : 1;
});
process.exit();
