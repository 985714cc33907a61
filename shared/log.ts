/**
 * The log of both programs: one line per event, for people or as JSON (pino).
 *
 *     14:02:11 info  slave joined  slave=box-2 peer=10.0.0.7:40112
 */
import { type Logger, pino } from 'pino';
import * as z from 'zod';
import { amount } from './amount.ts';
import { switched } from './flags.ts';
import { visible, visibleJson } from './visible.ts';

export type { Logger } from 'pino';

/** On both command lines. */
export const logFields = {
  jsonLogs: switched().describe('--json-logs  write log lines as JSON'),
  logLevel: z
    .enum(['debug', 'info', 'warn', 'error'])
    .default('info')
    .describe('--log-level <level>  lowest log level to print'),
};
type LogLevel = z.infer<typeof logFields.logLevel>;

/** Bytes that wait for a reader of the log who stands still, such as `less`: beyond them lines are
 *  left out, until half of them are read. */
const waitingBytesMax = 1 << 20;

/** `write` gets whole lines, for example to keep them above a status block. */
export function makeLog(options: {
  readonly level: LogLevel;
  readonly json: boolean;
  readonly write?: (line: string) => void;
}): Logger {
  const write = options.write ?? ((line: string) => process.stdout.write(line));
  let leftOut = 0;
  const log = pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
    },
    {
      write: (line) => {
        const bytesMax = leftOut > 0 ? waitingBytesMax / 2 : waitingBytesMax;
        if (process.stdout.writableLength > bytesMax) {
          leftOut++;
          return;
        }
        const count = leftOut;
        leftOut = 0;
        if (count > 0) log.error(`nobody read the log: ${amount(count, 'line')} left out`);
        write(options.json ? visibleJson(line) : forPeople(line));
      },
    },
  );
  return log;
}

type LogEntry = { readonly level: string; readonly msg: string } & Readonly<
  Record<string, unknown>
>;

/** Returns what a line of `--json-logs` says; undefined: it is none. */
export function logEntryIn(line: string): LogEntry | undefined {
  if (!line.startsWith('{"level":"')) return undefined;
  try {
    const entry = JSON.parse(line) as Record<string, unknown>;
    const { level, time, msg } = entry;
    const isEntry = [level, time, msg].every((value) => typeof value === 'string');
    return isEntry ? (entry as LogEntry) : undefined;
  } catch {
    return undefined;
  }
}

function forPeople(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const clock = new Date(String(time)).toTimeString().slice(0, 8);
  const rest = Object.entries(fields).map(([name, value]) => ` ${name}=${textOf(value)}`);
  const tail = rest.length > 0 ? ` ${rest.join('')}` : '';
  // These fields may hold text from peers and pages.
  return `${visible(`${clock} ${String(level).padEnd(5)} ${msg}${tail}`)}\n`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' && !/[\s"]/.test(value) ? value : JSON.stringify(value);
}
