/** `node master.js`: serves, sends a request to a running master, or runs the selftest. */
import { runMain } from '../shared/cli.ts';
import { visible } from '../shared/visible.ts';
import { ask } from './cli/ask.ts';
import { compactedText } from './cli/notices.ts';
import { parseMasterOptions } from './cli/options.ts';
import { Master } from './master.ts';
import { compact } from './repair/compact.ts';
import { repair } from './repair/repair.ts';

// A log without room or reader must not end a crawl.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

await runMain('master', async () => {
  const options = parseMasterOptions(process.argv, process.env);
  if (options.kind === 'ask') {
    await ask(options);
    return;
  }
  if (options.kind === 'repair') {
    for (const line of await repair(options)) console.log(visible(line));
    return;
  }
  if (options.kind === 'compact') {
    console.log(compactedText(await compact(options)));
    return;
  }
  if (options.kind === 'selftest') {
    // The selftest is a separate file, which a serving master does not load.
    await import(new URL('selftest.js', import.meta.url).href);
    return;
  }
  const starting = Master.start(options);
  let asked = 0;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      // A second signal ends at once: all that was acknowledged is on the disk.
      if (++asked > 1) process.exit(1);
      starting.then((master) => master.stop()).catch(() => {}); // reported below
    });
  }
  const master = await starting;
  // Work that nothing awaits can fail, too: a timer that reads the store from a failed disk.
  process.on('uncaughtException', (error) => master.fail(error));
  await master.stopped;
  process.exitCode = master.exitCode;
});
process.exit();
