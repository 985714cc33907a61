/**
 * The calls that a slave runs: the programs of `--allow-exec`, by exactly these paths, and the
 * scripts that lie in `--exec-folder` when they are asked for. Both are looked at again before each
 * job: a file that others could write is refused, since it would run what they want. No shell has a
 * part in it.
 */
import { accessSync, constants, readdirSync, realpathSync, type Stats, statSync } from 'node:fs';
import { dirname, join, normalize, resolve } from 'node:path';
import { ConfigError, codeOf, messageOf } from '../../shared/errors.ts';
import { type JobCall, jobLimits, scriptNamePattern } from '../../shared/jobs.ts';
import type { ExecUser } from './job-folder.ts';

type AllowedOptions = {
  readonly programs: readonly string[];
  /** Of scripts; undefined: none. */
  readonly folder: string | undefined;
  /** Of the jobs; undefined: that of the slave. */
  readonly user: ExecUser | undefined;
};

export class Allowed {
  readonly programs: readonly string[];
  readonly #folder: string | undefined;
  readonly #user: ExecUser | undefined;

  /** @throws ConfigError a program or the folder cannot be used */
  constructor({ programs, folder, user }: AllowedOptions) {
    this.#user = user;
    this.programs = [...new Set(programs)];
    this.#folder = folder;
    if (this.programs.length > jobLimits.programsMax) {
      throw new ConfigError(`--allow-exec takes at most ${jobLimits.programsMax} programs`);
    }
    for (const program of this.programs) {
      const isPath = program.startsWith('/') && normalize(program) === program;
      if (!isPath || program.endsWith('/') || program.length > jobLimits.programChars) {
        throw new ConfigError(
          `--allow-exec ${program}: give the absolute path of a program, without . and ..`,
        );
      }
      const fault = this.#faultOf(program);
      if (fault !== undefined) throw new ConfigError(`--allow-exec ${program}: ${fault}`);
    }
    if (folder === undefined) return;
    const fault = this.#faultOfFolder(folder);
    if (fault !== undefined) throw new ConfigError(`--exec-folder ${folder}: ${fault}`);
  }

  /** The names of the scripts that can be run now. */
  scripts(): string[] {
    if (this.#folder === undefined) return [];
    try {
      const names = readdirSync(this.#folder).filter((name) => scriptNamePattern.test(name));
      const usable = names.sort().filter((name) => this.#scriptFault(name) === undefined);
      return usable.slice(0, jobLimits.scriptsMax);
    } catch {
      return [];
    }
  }

  /** The path that a call runs, or why it is refused. */
  look({ program, script }: JobCall): { readonly path: string } | { readonly refused: string } {
    if (program !== undefined) {
      if (!this.programs.includes(program)) {
        return { refused: `${program} is not among the programs of --allow-exec` };
      }
      const fault = this.#faultOf(program);
      return fault === undefined ? { path: program } : { refused: `${program}: ${fault}` };
    }
    if (this.#folder === undefined) return { refused: 'this slave has no --exec-folder' };
    if (script === undefined || !scriptNamePattern.test(script)) {
      return { refused: 'that is not the name of a script' };
    }
    const fault = this.#faultOfFolder(this.#folder) ?? this.#scriptFault(script);
    return fault === undefined
      ? { path: join(this.#folder, script) }
      : { refused: `script ${script}: ${fault}` };
  }

  #scriptFault(name: string): string | undefined {
    const folder = this.#folder ?? '/';
    const path = join(folder, name);
    try {
      // A link may lead to another script of the folder, and nowhere else.
      if (dirname(realpathSync(path)) !== realpathSync(folder)) {
        return 'it is a link that leads out of --exec-folder';
      }
    } catch (error) {
      return codeOf(error) === 'ENOENT'
        ? 'there is none of that name in --exec-folder'
        : messageOf(error);
    }
    return this.#faultOf(path);
  }

  #faultOfFolder(folder: string): string | undefined {
    try {
      const stats = statSync(folder);
      if (!stats.isDirectory()) return 'is not a folder';
      return this.#writableFault(stats);
    } catch (error) {
      return messageOf(error);
    }
  }

  #faultOf(path: string): string | undefined {
    try {
      const stats = statSync(path);
      if (!stats.isFile()) return 'is not a file';
      accessSync(path, constants.X_OK);
      return this.#writableFault(stats);
    } catch (error) {
      return messageOf(error);
    }
  }

  /** Others could put another program there. */
  #writableFault({ mode, uid, gid }: Stats): string | undefined {
    if ((mode & 0o002) !== 0) return 'everybody may write to it; take that right away';
    const user = this.#user;
    if (user === undefined) return undefined;
    const isTheirs = uid === user.uid || (gid === user.gid && (mode & 0o020) !== 0);
    return isTheirs
      ? `${user.name} of --exec-user may write to it; take that right away`
      : undefined;
  }
}

/** A folder of an option, absolute. */
export function folderOf(path: string | undefined): string | undefined {
  return path === undefined ? undefined : resolve(path);
}
