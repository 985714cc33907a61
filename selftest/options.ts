/** The command line of `node master.js selftest`. */
import { randomInt } from 'node:crypto';
import { InvalidArgumentError, Option } from 'commander';
import { makeCommand, whole } from '../shared/cli.ts';
import { ConfigError } from '../shared/errors.ts';

type SelftestOptions = {
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
      'Tests on this machine that no page is lost or written twice. It crawls generated sites, ' +
        'kills, restarts and stops master and slaves, cuts their connections, shifts their clocks ' +
        'and fills a disk (a small one of its own; as root on Linux only). Then it compares the ' +
        'results with the sites. Exit code: 0 if they agree, else 1.',
    )
    .option('--chaos', 'run the test', false)
    .addOption(
      new Option('--for <time>', 'duration: seconds, or a number with m or h (30m, 2h)')
        .argParser(duration)
        .default(5 * unitsMs.m, '5m'),
    )
    .option(
      '--seed <n>',
      'random seed, to repeat the sites and faults of a run; default: random',
      whole(0, 2 ** 31),
    )
    .option('--slaves <n>', 'number of slaves', whole(1, 64), 3)
    .option('--pages <n>', 'maximum number of pages per crawl', whole(10, 100_000), 2_000)
    .option('--every <ms>', 'average milliseconds between two faults', whole(10, 600_000), 1_500)
    .allowExcessArguments(false);
  program.parse([...args], { from: 'user' });
  const values: Record<string, unknown> = program.opts();
  if (values['chaos'] !== true) {
    throw new ConfigError('no test was chosen; run: node master.js selftest --chaos');
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
