/** `node master.js`: serves, asks a running master, or runs the selftest that was built beside it. */
import { runMain } from '../shared/cli.ts';
import { visible } from '../shared/visible.ts';
import { ask } from './cli/ask.ts';
import { parseMasterOptions } from './cli/options.ts';
import { Master } from './master.ts';
import { repair } from './repair/repair.ts';

// A log that finds no room, or no reader, ends no crawl.
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
  if (options.kind === 'selftest') {
    // A program of its own, in a file of its own: a master that serves does not load it.
    await import(new URL('selftest.js', import.meta.url).href);
    return;
  }
  const starting = Master.start(options);
  let asked = 0;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      // The second one means it: everything that was acknowledged is on the disk.
      if (++asked > 1) process.exit(1);
      starting.then((master) => master.stop()).catch(() => {}); // said below
    });
  }
  const master = await starting;
  // What nobody waits for can fail, too: a look into the store by a timer, on a disk that failed.
  process.on('uncaughtException', (error) => master.fail(error));
  await master.stopped;
});
process.exit();
