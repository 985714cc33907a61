/** The slave's command line and environment, frozen into plain options. */
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import * as z from 'zod';
import { slaveCall, slaveFiles } from '../shared/calls.ts';
import { fieldFlags, joinFlags, joining, makeCommand } from '../shared/cli.ts';
import { ConfigError } from '../shared/errors.ts';
import { rarely, switched, whole } from '../shared/flags.ts';
import { jobLimits } from '../shared/jobs.ts';
import { logFields } from '../shared/log.ts';
import { peerNameSchema } from '../shared/protocol.ts';
import { version } from '../shared/version.ts';
import type { BrowserSettings } from './browser/find.ts';

/** Commands of the master. */
const execFields = {
  allowExec: z
    .array(z.string())
    .default([])
    .describe(
      '--allow-exec <path>  program that the master may run here, by its absolute path (repeatable); default: none',
    ),
  execFolder: z
    .string()
    .optional()
    .describe(
      '--exec-folder <folder>  folder of scripts that the master may run by name; default: none',
    ),
  execUser: z
    .string()
    .optional()
    .describe(
      '--exec-user <name>  user that runs commands, required for a slave of root; default: that of the slave',
    ),
  execSlots: whole(0, jobLimits.slotsMax)
    .default(2)
    .describe('--exec-slots <n>  maximum number of commands at once; 0: none'),
  execTimeout: whole(1, jobLimits.timeoutMsMax / 1000)
    .default(3600)
    .describe('--exec-timeout <s>  seconds that a command may run'),
  execCpu: whole(1, 31_536_000)
    .default(3600)
    .describe('--exec-cpu <s>  seconds of CPU time of each process of a command'),
  execMemory: whole(16, 1 << 20)
    .default(4096)
    .describe('--exec-memory <MiB>  address space of each process of a command'),
  execProcesses: whole(1, 100_000)
    .default(256)
    .describe('--exec-processes <n>  processes and threads of --exec-user in all'),
  execFileSize: whole(0, 1 << 20)
    .default(1024)
    .describe('--exec-file-size <MiB>  maximum size of a file that a command writes'),
  execDisk: whole(0, 1 << 20)
    .default(1024)
    .describe(
      '--exec-disk <MiB>  maximum size of the folder of a command, looked at once a second',
    ),
  execOutput: whole(0, jobLimits.outputBytesMax >> 10)
    .default(1024)
    .describe('--exec-output <KiB>  output of a command to keep, of stdout and of stderr each'),
};

const slaveSchema = z.object({
  slots: whole(1, 1000)
    .default(16)
    .describe('--slots <n>  maximum number of concurrent fetches per process'),
  processes: whole(1, 256)
    .default(1)
    .describe('--processes <n>  number of slave processes to start; use one per core'),
  robotsOnly: switched().describe(
    '--robots-only  fetch only robots.txt and sitemaps, for a crawl whose pages other programs fetch',
  ),
  page: z
    .string()
    .optional()
    .describe('--page <file>  module whose default export is called with each page; default: none'),
  browser: switched().describe('--browser  render the pages of crawls that ask for a browser'),
  browserProgram: z
    .string()
    .optional()
    .describe(
      '--browser-program <file>  Chromium to start with --browser; default: the first of chromium-headless-shell, chromium and google-chrome in PATH',
    ),
  sandbox: z
    .boolean()
    .default(true)
    .describe(
      '--no-sandbox  start the browser without its sandbox, as root must; only in a container of its own; default: with it',
    ),
  name: z
    .string()
    .optional()
    .describe(
      '--name <name>  name of the slave in status and logs; default: host name and process id',
    ),
  ...execFields,
  /** Of the first connection; later the slave reconnects without a limit. */
  joinTimeout: whole(0, 86_400)
    .default(10)
    .describe('--join-timeout <s>  seconds to wait for the first connection to the master'),
  ...logFields,
});

const examples = `Examples:
  In the folder of a master on this machine:
    ${slaveCall}

  On another machine, with ${slaveFiles} copied to it, on 4 cores:
    ${slaveCall} --master MASTER-HOST:6666 --authkey-file authkey --processes 4`;

export type SlaveOptions = ReturnType<typeof parseSlaveOptions>;

/** @throws ConfigError, or commander's own error, each one line. */
export function parseSlaveOptions(argv: readonly string[], env: NodeJS.ProcessEnv) {
  const program = makeCommand(slaveCall, env, examples)
    .description(
      'Orbweaver slave: fetches the pages that a master hands out and reports the results.',
    )
    .version(version)
    .allowExcessArguments(false)
    .action(() => {});
  const options = [...joinFlags('address of the master'), ...fieldFlags(slaveSchema.shape)];
  for (const option of options) program.addOption(option);
  program.parse(argv as string[]);
  const { robotsOnly, joinTimeout, browser, browserProgram, sandbox, ...values } =
    slaveSchema.parse(program.opts(), rarely);
  refuseExecAlone(values);
  const name = values.name ?? `${hostname().slice(0, 48)}-${process.pid}`;
  if (!peerNameSchema.safeParse(name).success) {
    throw new ConfigError('--name must have 1 to 64 printable characters');
  }
  return {
    ...values,
    master: joining(program.opts(), env),
    name,
    /** Absolute: its process may have another folder. */
    page: values.page === undefined ? undefined : resolve(values.page),
    /** `probes`: only robots.txt and sitemaps. */
    takes: robotsOnly ? ('probes' as const) : ('all' as const),
    joinTimeoutMs: joinTimeout * 1000,
    browser: browser ? browserSettings(browserProgram, sandbox, env) : undefined,
  };
}

/** @throws ConfigError the sandbox cannot work */
export function browserSettings(
  program: string | undefined,
  isSandboxed: boolean,
  env: NodeJS.ProcessEnv,
): BrowserSettings {
  if (isSandboxed && process.getuid?.() === 0) {
    throw new ConfigError(
      '--browser does not run as root: start the slave as a user of its own (in a container of its own, --no-sandbox is a way, too)',
    );
  }
  const { PATH: path = '/usr/local/bin:/usr/bin:/bin' } = env;
  const kept = ['HOME', 'LANG', 'TMPDIR', 'TZ', 'FONTCONFIG_PATH'];
  const own = kept.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]));
  return {
    program: program === undefined ? undefined : resolve(program),
    isSandboxed,
    path,
    env: { PATH: path, ...(Object.fromEntries(own) as Record<string, string>) },
  };
}

/** @throws ConfigError an option of commands, and no command is allowed */
function refuseExecAlone({
  allowExec,
  execFolder,
  execUser,
}: Pick<z.output<typeof slaveSchema>, 'allowExec' | 'execFolder' | 'execUser'>): void {
  if (allowExec.length > 0 || execFolder !== undefined || execUser === undefined) return;
  throw new ConfigError('--exec-user needs --allow-exec or --exec-folder');
}
