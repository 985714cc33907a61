/** Shared by the modules of subcommands: how one is made, and where its master is. */
import type { Command } from 'commander';
import type { Joining } from '../../../shared/cli.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { ConfigError } from '../../../shared/errors.ts';

export type { Command } from 'commander';

export type Values = Record<string, unknown>;

/** The part of the options that all subcommands have. */
export type Common = { readonly kind: 'ask'; readonly master: Joining; readonly json: boolean };

export type AskMaker = {
  /** A command with the flags that lead to a master, and --json. */
  make(name: string, description: string): Command;
};

/** The options that were given on the command line: not by a variable, and not by default. */
export function givenOptions(command: Command): Values {
  const values: Values = command.opts();
  const isGiven = ([name]: [string, unknown]) => command.getOptionValueSource(name) === 'cli';
  return Object.fromEntries(Object.entries(values).filter(isGiven));
}

/** `--delay 4 --no-delay` says nothing: the parser would take the later one in silence. */
export function refuseOpposites(command: Command): void {
  const seen = new Set<string>();
  const take = (name: string, other: string) => {
    seen.add(name);
    if (!seen.has(other)) return;
    const [yes = '', no = ''] = [name, other].sort((a, b) => a.length - b.length);
    throw new ConfigError(`--${yes} and --${no} contradict each other: leave one out`);
  };
  for (const { negate, long = '' } of command.options) {
    if (!negate) continue;
    const [no, yes] = [long.slice('--'.length), long.slice('--no-'.length)];
    command.on(`option:${yes}`, () => take(yes, no));
    command.on(`option:${no}`, () => take(no, yes));
  }
}

/** Connects to the master. @throws ConfigError · AuthError */
export type Join = () => Promise<MasterClient>;

/** The output of a subcommand: `answer` with --json, else `text`. */
export type Answer = {
  readonly text: string;
  readonly answer: unknown;
  /** Of the process; default: 0. */
  readonly exitCode?: number;
};
