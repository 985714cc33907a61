/** `node master.js`: serves, sends a request to a running master, or runs the selftest. */
import { outputTaken, runMain } from '../shared/cli.ts';
import { ConfigError, exitCodes } from '../shared/errors.ts';
import { onHangUp } from '../shared/hang-up.ts';
import { streamLeaveMs } from '../shared/record-stream.ts';
import { onSuspend } from '../shared/suspension.ts';
import { variableWarnings } from '../shared/variables.ts';
import { visible } from '../shared/visible.ts';
import { ask } from './cli/ask.ts';
import { diff } from './cli/asks/diff.ts';
import { extract } from './cli/asks/extract.ts';
import { gallery } from './cli/asks/gallery.ts';
import { compactedText } from './cli/notices.ts';
import { parseMasterOptions } from './cli/options.ts';
import { readSeeds } from './cli/seeds.ts';
import { refuseRules, tryOut } from './cli/try.ts';
import { memoryWarnings } from './machine/control-group.ts';
import { ProgramReader } from './machine/program-reader.ts';
import { Master } from './master.ts';
import { checkArgument, checkForParent } from './repair/background-check.ts';
import { compact } from './repair/compact.ts';
import { repair } from './repair/repair.ts';

// A log without room or reader must not end a crawl.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

/** A reader of the log that stands still does not keep a master that has ended. */
const logTakenMs = 1_000;
let isServing = false;

void runMain('master', async () => {
  // Started by a master.
  if (process.argv[2] === checkArgument) {
    await checkForParent(process.argv.slice(3));
    return;
  }
  const options = parseMasterOptions(process.argv, process.env);
  const warnings = variableWarnings(process.env);
  if (options.kind !== 'serve') for (const line of warnings) console.error(`master: ${line}`);
  if (options.kind === 'ask') {
    const isAdd = options.ask.verb === 'add';
    const lacks = isAdd ? await refuseRules(options.ask.crawlFile) : [];
    for (const line of lacks) console.error(`master: warning: ${visible(line)}`);
    process.exitCode = await ask(options);
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
  if (options.kind === 'check' || options.kind === 'try') {
    const isWell = await tryOut(options, (line) => console.log(line));
    if (!isWell) process.exitCode = exitCodes.failed;
    return;
  }
  if (options.kind === 'extract') {
    await extract(options, (line) => console.log(line));
    return;
  }
  if (options.kind === 'diff') {
    await diff(options);
    return;
  }
  if (options.kind === 'gallery') {
    await gallery(options);
    return;
  }
  if (options.kind === 'selftest') {
    // The selftest is a separate file, which a serving master does not load.
    await import(new URL('selftest.js', import.meta.url).href);
    return;
  }
  const { items, follow } = options.spec.fetch;
  // A long file takes its time to be read again.
  if (items !== undefined || follow !== undefined) {
    const lacks = await refuseRules(options.crawlFile, options.crawlText);
    warnings.push(...lacks.map(visible));
  }
  warnings.push(...memoryWarnings(options.memoryBytes));
  isServing = true;
  // To `npm start`, whose lines stand between those of the log.
  process.send?.(options.jsonLogs ? 'json' : 'text');
  const seeds = [...options.seeds, ...(await readSeeds(options.seedFiles))];
  let serving: Master | undefined;
  onSuspend({
    before: () => {
      serving?.suspend();
      // To `npm start`, which stops when this process does.
      process.send?.('stopping');
    },
    after: () => serving?.resumed(),
    stopped: () => serving?.localPids ?? [],
  });
  let asked = 0;
  const reader = options.stream
    ? readerOf((isGone) => {
        asked++;
        stop();
        // Nothing is lost by it: all that was acknowledged is on the disk.
        if (isGone) setTimeout(() => process.exit(1), streamLeaveMs);
      })
    : undefined;
  const leaving = new AbortController();
  const starting = Master.start({ ...options, seeds, warnings, reader, stopping: leaving.signal });
  const stop = () => {
    leaving.abort();
    // Its faults are reported below.
    void starting.then((master) => master.stop()).catch(() => {});
  };
  // The process that started it is gone: `npm start` was killed.
  process.on('disconnect', stop);
  // It left while this process was starting, before anybody heard that.
  if (process.connected === false) stop();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      // A second signal ends at once: all that was acknowledged is on the disk.
      if (++asked > 1) process.exit(1);
      stop();
    });
  }
  onHangUp(stop);
  const master = await starting;
  serving = master;
  // Work that nothing awaits can fail, too: a timer that reads the store from a failed disk.
  process.on('uncaughtException', (error) => master.fail(error));
  await master.stopped;
  process.exitCode = master.exitCode;
})
  .then(() => outputTaken(isServing ? logTakenMs : undefined))
  .then(() => process.exit());

/** The program that has started this master to read its records. @throws ConfigError */
function readerOf(onLeave: (isGone: boolean) => void): ProgramReader {
  if (process.send !== undefined && process.connected) return new ProgramReader(process, onLeave);
  throw new ConfigError('--stream is for programs: import { crawl } from the npm package');
}
