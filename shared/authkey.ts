/** The shared secret: where it comes from, how it changes, and what is refused. */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  rmSync,
  type Stats,
  writeSync,
} from 'node:fs';
import { ConfigError, messageOf } from './errors.ts';

/** Shorter keys can be guessed from one recorded handshake. */
export const authkeyBytesMin = 16;
/** While keys are changed there are two. */
const keysMax = 2;
const lookEveryMs = 1_000;

/** The keys in a file, one a line: the first is the one to connect with, a second one is welcome
 *  beside it. @throws ConfigError */
export function readAuthkeys(path: string): readonly [Buffer, ...Buffer[]] {
  let text: string;
  let stats: Stats;
  try {
    const file = openSync(path, 'r');
    try {
      stats = fstatSync(file);
      text = readFileSync(file, 'utf8');
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new ConfigError(`cannot read the authkey file ${path}: ${messageOf(error)}`, error);
  }
  refuseOpenFile(path, stats);
  const [first, ...others] = text.split(/\r?\n/).filter((line) => line !== '');
  if (first === undefined) throw new ConfigError(`the authkey file ${path} is empty`);
  if (others.length >= keysMax) {
    throw new ConfigError(
      `the authkey file ${path} has ${others.length + 1} lines; it may have two: the key, and one ` +
        'that is also taken while keys are changed',
    );
  }
  return [Buffer.from(first), ...others.map((line) => Buffer.from(line))];
}

/** The key in a file to connect with. @throws ConfigError */
export function readAuthkey(path: string): Buffer {
  return readAuthkeys(path)[0];
}

/** As ssh does with keys: a file of our own that others may read is a mistake. */
function refuseOpenFile(path: string, { mode, uid }: Stats): void {
  if (process.platform === 'win32' || uid !== process.getuid?.() || (mode & 0o077) === 0) return;
  const modes = (mode & 0o777).toString(8).padStart(4, '0');
  throw new ConfigError(
    `the authkey file ${path} is open to others (mode ${modes}): chmod 600 ${path}`,
  );
}

/** A file of keys as it is now: looked at again, once a second at most, whenever it is asked. */
export class AuthkeyFile {
  readonly #path: string;
  readonly #onError: (error: unknown) => void;
  #keys: readonly Buffer[];
  #lookedAt = performance.now();
  #wrong = '';

  /** `onError`: the file was changed to something that cannot be used; once for each reason, and
   *  the keys of before stay. @throws ConfigError */
  constructor(path: string, onError: (error: unknown) => void) {
    this.#path = path;
    this.#onError = onError;
    this.#keys = readAuthkeys(path);
  }

  get keys(): readonly Buffer[] {
    const now = performance.now();
    if (now - this.#lookedAt < lookEveryMs) return this.#keys;
    this.#lookedAt = now;
    try {
      this.#keys = readAuthkeys(this.#path);
      this.#wrong = '';
    } catch (error) {
      if (this.#wrong !== messageOf(error)) this.#onError(error);
      this.#wrong = messageOf(error);
    }
    return this.#keys;
  }
}

/** Gives the key in a file as it is now, or as it was while the file cannot be used.
 *  @throws ConfigError when it cannot be used already now. */
export function authkeyReader(path: string): () => Buffer {
  let key = readAuthkey(path);
  return () => {
    try {
      key = readAuthkey(path);
    } catch {
      // Being replaced, perhaps; a key that is refused says so.
    }
    return key;
  };
}

/** The file of the key of the master of this folder: on the master's own machine nothing has to be
 *  given. @throws ConfigError */
export function localAuthkeyFile(): string {
  const path = './orb-data/authkey';
  if (existsSync(path)) return path;
  throw new ConfigError(
    'no authkey: give --authkey-file or ORB_AUTHKEY; the master keeps its key in <data>/authkey',
  );
}

/** Makes a key in `path` (mode 0600) when there is none; true when it did. @throws ConfigError */
export function makeAuthkeyFile(path: string): boolean {
  if (existsSync(path)) return false;
  const text = randomBytes(24).toString('base64url');
  try {
    const file = openSync(path, 'wx', 0o600);
    try {
      writeSync(file, `${text}\n`);
      fsyncSync(file);
    } catch (error) {
      rmSync(path); // an empty one would be in the way of the next start
      throw error;
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new ConfigError(`cannot make the authkey file ${path}: ${messageOf(error)}`, error);
  }
  return true;
}
