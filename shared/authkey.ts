/** The shared secret: its sources, its changes, and the files that are refused. */
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
  statSync,
  writeSync,
} from 'node:fs';
import { ConfigError, messageOf } from './errors.ts';

/** Shorter keys can be guessed from one recorded handshake. */
export const authkeyBytesMin = 16;
/** Two are in use while keys are changed. */
const keysMax = 2;
const lookEveryMs = 1_000;

/** Returns the keys in a file, one per line. The first is used to connect; a master also accepts
 *  the second. @throws ConfigError */
function readAuthkeys(path: string): readonly [Buffer, ...Buffer[]] {
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
    throw new ConfigError(
      `cannot read the authkey file ${path}: ${messageOf(error)}; choose another --authkey-file`,
      error,
    );
  }
  refuseOpenFile(path, stats);
  const [first, ...others] = keysIn(text);
  if (first === undefined)
    throw new ConfigError(
      `the authkey file ${path} is empty; put a key on its first line, or delete it`,
    );
  if (others.length >= keysMax) {
    throw new ConfigError(
      `the authkey file ${path} has ${others.length + 1} lines; leave at most two: the key, and a ` +
        'second one that is also accepted',
    );
  }
  return [Buffer.from(first), ...others.map((line) => Buffer.from(line))];
}

/** Returns the key that a program was given, which may be all that the key file holds: its first
 *  line. No key of a file has a line end. @throws ConfigError it is no key */
export function givenAuthkey(given: string | Uint8Array): Buffer {
  // A program without types may give nothing, as of a variable that is not set.
  if (typeof given !== 'string' && !ArrayBuffer.isView(given)) {
    throw new ConfigError('authkey: give the key, or all that the key file holds');
  }
  // Any bytes may be a key.
  const [first = ''] = keysIn(Buffer.from(given).toString('latin1'));
  return Buffer.from(first, 'latin1');
}

/** One a line. */
function keysIn(text: string): string[] {
  return text.split(/\r?\n/).filter((line) => line !== '');
}

/** Returns the key in a file that is used to connect. @throws ConfigError */
function readAuthkey(path: string): Buffer {
  return readAuthkeys(path)[0];
}

/** As ssh does: a key file of our own that other users may read is a mistake. */
function refuseOpenFile(path: string, { mode, uid }: Stats): void {
  if (process.platform === 'win32' || uid !== process.getuid?.() || (mode & 0o077) === 0) return;
  const modes = (mode & 0o777).toString(8).padStart(4, '0');
  throw new ConfigError(
    `the authkey file ${path} is open to other users (mode ${modes}); run: chmod 600 ${path}`,
  );
}

/** A file of keys that may change. When it is asked for them it is read again if it has changed,
 *  and otherwise once a second at most, for a clock too coarse to show a change. */
export class AuthkeyFile {
  readonly #path: string;
  readonly #onError: (error: unknown) => void;
  #keys: readonly Buffer[];
  #lookedAt = performance.now();
  /** The file as it was when it was read. */
  #seen: string;
  #wrong = '';

  /** `onError` is called when the file cannot be used any longer, once for each reason; the
   *  previous keys stay valid. @throws ConfigError */
  constructor(path: string, onError: (error: unknown) => void) {
    this.#path = path;
    this.#onError = onError;
    this.#seen = markOf(path);
    this.#keys = readAuthkeys(path);
  }

  get keys(): readonly Buffer[] {
    const now = performance.now();
    // A peer may come with a key that was written a moment ago; one that is refused gives up.
    const seen = markOf(this.#path);
    if (seen === this.#seen && now - this.#lookedAt < lookEveryMs) return this.#keys;
    this.#seen = seen;
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

/** Changes with the file; empty if there is none. */
function markOf(path: string): string {
  try {
    const { ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  } catch {
    // Reading it says why.
    return '';
  }
}

/** Returns a function that returns the current key of a file, or the last good one while the file
 *  cannot be used.
 *  @throws ConfigError if the file cannot be used now. */
export function authkeyReader(path: string): () => Buffer {
  let key = readAuthkey(path);
  return () => {
    try {
      key = readAuthkey(path);
    } catch {
      // The file may be being replaced. If the old key is wrong, the master refuses it.
    }
    return key;
  };
}

/** Returns the key file of the master of this folder, so that no option is needed on its machine.
 *  `isAddressed`: the operator said where the master is. @throws ConfigError */
export function localAuthkeyFile(isAddressed: boolean): string {
  const path = './orb-data/authkey';
  if (existsSync(path)) return path;
  if (!isAddressed && !existsSync('./orb-data')) {
    throw new ConfigError(
      'there is no ./orb-data in this folder: run this in the folder where the master was started, ' +
        'or give --master and --authkey-file',
    );
  }
  throw new ConfigError(
    'no authkey: give --authkey-file or ORB_AUTHKEY; the master keeps its key in <data>/authkey',
  );
}

/** Creates a key in `path` (mode 0600) if there is no file. Returns whether it did. @throws
 *  ConfigError */
export function makeAuthkeyFile(path: string): boolean {
  if (existsSync(path)) return false;
  const text = randomBytes(24).toString('base64url');
  try {
    const file = openSync(path, 'wx', 0o600);
    try {
      writeSync(file, `${text}\n`);
      fsyncSync(file);
    } catch (error) {
      rmSync(path); // an empty file would break the next start
      throw error;
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new ConfigError(
      `cannot create the authkey file ${path}: ${messageOf(error)}; choose another --authkey-file`,
      error,
    );
  }
  return true;
}
