/** `host`: changes how a host is treated, whatever its crawls say. */
import { whole } from '../../../shared/cli.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { ConfigError } from '../../../shared/errors.ts';
import { number } from '../../machine/progress.ts';
import {
  type Answer,
  type AskMaker,
  type Command,
  refuseOpposites,
  type Values,
} from './asking.ts';

export type HostAsk = {
  readonly verb: 'host';
  readonly host: string;
  /** null: that of the crawls again. */
  readonly delayMs: number | null | undefined;
  readonly blocked: boolean | undefined;
  readonly wake: boolean;
  readonly retry: boolean;
};

export function hostCommand(
  { make }: AskMaker,
  take: (values: Values, ask: HostAsk) => void,
): Command {
  const command = make('host', 'change how a host is treated: its delay, or whether it is asked')
    .argument('<host>', 'such as example.org, example.org:8080 or https://example.org', hostName)
    .option(
      '--delay <ms>',
      'delay between two fetches, in place of that of the crawls; kept over restarts',
      whole(0, 86_400_000),
    )
    .option('--no-delay', 'the delay of the crawls again')
    .option('--block', 'fetch nothing from it until --unblock; kept over restarts')
    .option('--unblock', 'fetch from it again')
    .option('--wake', 'ask it now: end its sleep after failures, or its hold after 429 and 503')
    .option('--retry', 'the same, and put URLs back that were given up while it was out of reach');
  refuseOpposites(command);
  return command.action((host: string, values: Values) => {
    const { delay, block, unblock, wake = false, retry = false } = values;
    if (block === true && unblock === true) {
      throw new ConfigError('--block and --unblock contradict each other: leave one out');
    }
    const isDelay = command.getOptionValueSource('delay') === 'cli';
    const blocked = block === true ? true : unblock === true ? false : undefined;
    const delayMs = isDelay ? (delay === false ? null : Number(delay)) : undefined;
    if (delayMs === undefined && blocked === undefined && wake !== true && retry !== true) {
      throw new ConfigError(
        'say what is to change: --delay, --no-delay, --block, --unblock, --wake or --retry',
      );
    }
    take(values, {
      verb: 'host',
      host,
      delayMs,
      blocked,
      wake: wake === true,
      retry: retry === true,
    });
  });
}

function hostName(text: string): string {
  if (text !== '' && text.length <= 300) return text;
  throw new ConfigError(`"${text.slice(0, 60)}" is no host: write one such as example.org`);
}

export async function askHost(master: MasterClient, ask: HostAsk): Promise<Answer> {
  const { host, delayMs, blocked, wake, retry } = ask;
  const answer = await master.request('host.set', {
    host,
    ...(delayMs !== undefined && { delayMs }),
    ...(blocked !== undefined && { blocked }),
    ...(wake && { wake }),
    ...(retry && { retry }),
  });
  const lines = answer.hosts.map((one) => {
    const delay = one.delayMs === undefined ? 'the delay of its crawls' : `${one.delayMs} ms delay`;
    const state = one.blocked ? 'blocked, ' : wake || retry ? 'asked again, ' : '';
    const unknown = one.known ? '' : '; no URL of it is in memory now';
    return `${one.host}: ${state}${delay}${unknown}`;
  });
  const { replayed } = answer;
  if (replayed !== undefined) lines.push(`put ${number(replayed)} back into the task queue`);
  return { text: lines.join('\n'), answer };
}
