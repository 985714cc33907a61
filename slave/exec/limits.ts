/**
 * The command line that runs a job within its limits: `setpriv` takes the means to get more rights,
 * such as `sudo`, and `prlimit` sets limits of the kernel. Both then become the program of the job,
 * with its arguments as they are. Source: prlimit(1), setpriv(1), getrlimit(2).
 */
import { existsSync, readFileSync } from 'node:fs';
import { ConfigError } from '../../shared/errors.ts';
import type { ExecUser } from './job-folder.ts';

/** Of each job. */
export type JobBounds = {
  /** Address space of each of its processes. */
  readonly memoryBytes: number;
  /** Processes and threads of its user, in all. */
  readonly processes: number;
  /** CPU time of each of its processes, in s. */
  readonly cpuS: number;
  /** Length of a file. */
  readonly fileBytes: number;
  /** Of its folder in all. */
  readonly folderBytes: number;
  /** Of each stream that is kept. */
  readonly outputBytes: number;
  readonly timeoutMs: number;
};

export type Tools = { readonly prlimit: string; readonly setpriv: string | undefined };

const folders = ['/usr/bin', '/bin', '/usr/sbin', '/sbin'];

/** @throws ConfigError there is no prlimit */
export function findTools(): Tools {
  const find = (name: string) => folders.map((dir) => `${dir}/${name}`).find((p) => existsSync(p));
  const prlimit = find('prlimit');
  if (prlimit === undefined) {
    throw new ConfigError('--allow-exec needs the program prlimit: install util-linux');
  }
  return { prlimit, setpriv: find('setpriv') };
}

/** The program to start, and its arguments. `ownUser`: its user runs nothing but jobs of this
 *  slave, so that the limit of processes can be set. */
export function boundedCommand(
  { prlimit, setpriv }: Tools,
  bounds: JobBounds,
  ownUser: boolean,
  path: string,
  args: readonly string[],
): [program: string, args: string[]] {
  const limits = [
    `--as=${bounds.memoryBytes}`,
    `--fsize=${bounds.fileBytes}`,
    // The second limit kills a process that ignores SIGXCPU.
    `--cpu=${bounds.cpuS}:${bounds.cpuS + 5}`,
    '--core=0',
    ...(ownUser ? [`--nproc=${bounds.processes}`] : []),
  ];
  const bounded = [...limits, '--', path, ...args];
  if (setpriv === undefined) return [prlimit, bounded];
  return [setpriv, ['--no-new-privs', '--', prlimit, ...bounded]];
}

/** The user of jobs. Undefined: that of the slave.
 *  @throws ConfigError there is no such user, or this process may not become it */
export function execUser(name: string | undefined, ownUid: number): ExecUser | undefined {
  if (name === undefined) {
    if (ownUid !== 0) return undefined;
    throw new ConfigError(
      'a slave of root runs no commands as root: name another user with --exec-user, ' +
        'for example one that you make for it, or nobody',
    );
  }
  const user = userOf(name);
  if (user === undefined) throw new ConfigError(`--exec-user ${name}: there is no such user`);
  if (user.uid === 0) throw new ConfigError('--exec-user must not be root');
  if (ownUid === user.uid) return undefined;
  if (ownUid !== 0) {
    throw new ConfigError(`--exec-user ${name}: only a slave of root can run jobs as another user`);
  }
  return user;
}

/** `name`, `uid` or `uid:gid`. */
function userOf(name: string): ExecUser | undefined {
  const [, uid, gid] = /^(\d{1,9})(?::(\d{1,9}))?$/.exec(name) ?? [];
  const lines = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8').split('\n') : [];
  const users = lines.map((line) => line.split(':'));
  const found = users.find((one) => (uid === undefined ? one[0] === name : one[2] === uid));
  const group = gid ?? found?.[3];
  const number = uid ?? found?.[2];
  if (number === undefined || group === undefined) return undefined;
  return { name, uid: Number(number), gid: Number(group) };
}
