/** The command line of `node master.js selftest`. */
import { randomInt } from 'node:crypto';
import { InvalidArgumentError, Option } from 'commander';
import { makeCommand, whole } from '../shared/cli.ts';
import { ConfigError } from '../shared/errors.ts';

export type SelftestOptions = {
  readonly seed: number;
  readonly forMs: number;
  readonly slaves: number;
  readonly pagesMax: number;
  readonly everyMs: number;
};

const unitsMs = { s: 1_000, m: 60_000, h: 3_600_000 } as const;

/** @throws ConfigError, or commander's own error, each one line. */
export function parseOptions(args: readonly string[]): SelftestOptions {
  const program = makeCommand('node master.js selftest', {})
    .description(
      'Proves on this machine that nothing is lost and nothing doubled: crawls generated sites ' +
        'while it kills, restarts and stops master and slaves, cuts their connections, fills a disk (one of ' +
        'its own, as root on Linux) and puts clocks off; then compares all that was written with ' +
        'the truth. Ends with 0 if it is the same, else with 1.',
    )
    .option('--chaos', 'do so', false)
    .addOption(
      new Option('--for <time>', 'how long: seconds, or 30m, 2h')
        .argParser(duration)
        .default(5 * unitsMs.m, '5m'),
    )
    .option('--seed <n>', 'the same sites and faults again; default: any', whole(0, 2 ** 31))
    .option('--slaves <n>', 'slaves at once', whole(1, 64), 3)
    .option('--pages <n>', 'of one crawl, at most', whole(10, 100_000), 2_000)
    .option('--every <ms>', 'between two faults, on average', whole(10, 600_000), 1_500)
    .allowExcessArguments(false);
  program.parse([...args], { from: 'user' });
  const values: Record<string, unknown> = program.opts();
  if (values['chaos'] !== true) {
    throw new ConfigError('say which test: node master.js selftest --chaos');
  }
  return {
    seed: (values['seed'] as number | undefined) ?? randomInt(2 ** 30),
    forMs: Number(values['for']),
    slaves: Number(values['slaves']),
    pagesMax: Number(values['pages']),
    everyMs: Number(values['every']),
  };
}

function duration(text: string): number {
  const [, number, unit = 's'] = /^(\d{1,7})(s|m|h)?$/.exec(text) ?? [];
  const ms = Number(number) * unitsMs[unit as keyof typeof unitsMs];
  if (!(ms >= 1_000 && ms <= 7 * 24 * unitsMs.h)) {
    throw new InvalidArgumentError('It must be seconds, or a number with s, m or h: 90, 30m, 2h.');
  }
  return ms;
}
