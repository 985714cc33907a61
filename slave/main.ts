/** `node slave.js`: works for a master until it is stopped. */
import { fileURLToPath } from 'node:url';
import { runMain } from '../shared/cli.ts';
import { onHangUp } from '../shared/hang-up.ts';
import { makeLog } from '../shared/log.ts';
import { trialArgument } from '../shared/rule-results.ts';
import { onSuspend } from '../shared/suspension.ts';
import { variableWarnings } from '../shared/variables.ts';
import { executorOf } from './exec/commands.ts';
import { guard, guardArgument } from './exec/guard.ts';
import { parseSlaveOptions } from './options.ts';
import { supervise } from './supervisor.ts';
import { serveTrial } from './trial.ts';
import { Worker } from './worker.ts';

// A log without room or reader must not end a crawl.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

void runMain('slave', async () => {
  // Started by `check` and `try` of the master.
  if (process.argv[2] === trialArgument) {
    await serveTrial(process.env);
    return;
  }
  // Started by a slave that runs commands.
  if (process.argv[2] === guardArgument) {
    await guard(process.argv[3]);
    return;
  }
  // To a master or a supervisor, which kills one that hangs in Node's own start. One that has left
  // hears nothing.
  process.send?.('started', () => {});
  const options = parseSlaveOptions(process.argv, process.env);
  const log = makeLog({ level: options.logLevel, json: options.jsonLogs });
  // A master or a supervisor, whose environment it has, has warned.
  if (process.send === undefined) for (const line of variableWarnings(process.env)) log.warn(line);
  // Refuses what is wrong before a process of `--processes` does.
  const executor = executorOf(options, log);
  if (options.processes > 1) {
    process.exitCode = await supervise(fileURLToPath(import.meta.url), options);
    return;
  }
  const worker = new Worker({ ...options, executor, log });
  let asked = 0;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      // A second signal ends at once: the master gives unfinished tasks to other slaves.
      if (++asked > 1) process.exit(1);
      void worker.drain();
    });
  }
  onHangUp(() => void worker.drain());
  onSuspend({ before: () => {}, after: (stoppedMs) => worker.resumed(stoppedMs) });
  // The supervisor of --processes is gone.
  process.on('disconnect', () => void worker.drain());
  // It left while this process was starting, before anybody heard that.
  if (process.connected === false) void worker.drain();
  await worker.run();
}).then(() => process.exit());
