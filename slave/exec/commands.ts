/** Makes the executor of a slave from its options, if it takes commands. */
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { Allowed, folderOf } from './allowed.ts';
import { Executor } from './executor.ts';
import { execUser, findTools } from './limits.ts';

type ExecOptions = {
  readonly allowExec: readonly string[];
  readonly execFolder?: string | undefined;
  readonly execUser?: string | undefined;
  readonly execSlots: number;
  readonly execTimeout: number;
  readonly execCpu: number;
  readonly execMemory: number;
  readonly execProcesses: number;
  readonly execFileSize: number;
  readonly execDisk: number;
  readonly execOutput: number;
};

const mebibyte = 1 << 20;

/** Undefined: it takes none. @throws ConfigError the operator must act */
export function executorOf(options: ExecOptions, log: Logger): Executor | undefined {
  const folder = folderOf(options.execFolder);
  if (options.allowExec.length === 0 && folder === undefined) return undefined;
  if (process.platform !== 'linux') {
    throw new ConfigError('--allow-exec and --exec-folder need Linux');
  }
  const tools = findTools();
  const user = execUser(options.execUser, process.getuid?.() ?? 0);
  const allowed = new Allowed({ programs: options.allowExec, folder, user });
  // Another process of this slave takes them.
  if (options.execSlots === 0) return undefined;
  if (user === undefined) {
    log.warn(
      'commands run as the user of this slave: the number of their processes is not limited, ' +
        'so a fork bomb is not bounded; start the slave as root with --exec-user to bound it',
    );
  }
  if (tools.setpriv === undefined) {
    log.warn('there is no setpriv: a command may get more rights by programs such as sudo');
  }
  return new Executor({
    allowed,
    tools,
    user,
    log,
    slots: options.execSlots,
    bounds: {
      memoryBytes: options.execMemory * mebibyte,
      processes: options.execProcesses,
      cpuS: options.execCpu,
      fileBytes: options.execFileSize * mebibyte,
      folderBytes: options.execDisk * mebibyte,
      outputBytes: options.execOutput << 10,
      timeoutMs: options.execTimeout * 1000,
    },
    program: fileURLToPath(new URL('slave.js', import.meta.url)),
  });
}
