/**
 * A command of the operator's crawl file, each line of whose output is a seed. It runs on the
 * master's machine, without a shell and without the master's secret. Its time and its output are
 * bounded; at the limit it is killed with the processes that it started.
 */
import type { Readable } from 'node:stream';
import { AwakeTimer } from '../../shared/awake.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { startProcess } from '../../shared/start-process.ts';
import { visible } from '../../shared/visible.ts';

type SeedCommand = {
  /** The program, then its arguments. */
  readonly command: readonly string[];
  readonly folder: string;
  readonly timeoutMs: number;
  readonly bytesMax: number;
};

/** Of what it says about its faults: the end. */
const faultChars = 300;

/** Returns its output. `signal`: it is no longer wanted.
 *  @throws ConfigError it cannot be run, fails, takes too long, says too much, or is aborted */
export function runCommand(
  { command, folder, timeoutMs, bytesMax }: SeedCommand,
  signal?: AbortSignal,
): Promise<Buffer> {
  const [program = '', ...args] = command;
  const { ORB_AUTHKEY: _, ...env } = process.env;
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    let said = '';
    let why: string | undefined;
    // A group of its own, so that all of it can be killed.
    const child = startProcess(program, args, {
      cwd: folder,
      env,
      detached: true,
      windowsHide: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // There are none if no file descriptor is left, which its error says.
    const { stdout, stderr }: { stdout?: Readable | null; stderr?: Readable | null } = child;
    const kill = (reason: string) => {
      why ??= reason;
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        child.kill('SIGKILL');
      }
      // A process that left the group may hold them open.
      stdout?.destroy();
      stderr?.destroy();
    };
    const stop = () => kill('was stopped with the master');
    process.once('exit', stop);
    const late = () => kill(`took longer than ${timeoutMs / 1000} s`);
    const timer = new AwakeTimer(late, timeoutMs);
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted) stop();
    stdout?.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > bytesMax) kill(`wrote more than ${bytesMax >> 20} MiB`);
      else chunks.push(chunk);
    });
    stderr?.on('data', (chunk: Buffer) => {
      said = `${said}${chunk}`.slice(-faultChars);
    });
    const end = (fault: string | undefined) => {
      timer.clear();
      process.off('exit', stop);
      signal?.removeEventListener('abort', stop);
      if (fault === undefined) resolve(Buffer.concat(chunks, length));
      else reject(new ConfigError(`the command ${program} ${fault}`));
    };
    child.on('error', (error) => end(`cannot be run in ${folder}: ${messageOf(error)}`));
    child.on('close', (code, by) => {
      if (why === undefined && code === 0) end(undefined);
      else {
        const ended = by === null ? `failed with exit code ${code}` : `was ended by ${by}`;
        const last = visible(said.trim().split('\n').at(-1) ?? '');
        end(why ?? (last === '' ? ended : `${ended}: ${last}`));
      }
    });
  });
}
