/** The shared secret: where it comes from, and what is refused. */
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { ConfigError, messageOf } from './errors.ts';

/** Shorter keys can be guessed from one recorded handshake. */
export const authkeyBytesMin = 16;

/** The key in a file, without the line end. @throws ConfigError */
export function readAuthkey(path: string): Buffer {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`cannot read the authkey file ${path}: ${messageOf(error)}`, error);
  }
  const key = text.replace(/\r?\n$/, '');
  if (key === '') throw new ConfigError(`the authkey file ${path} is empty`);
  return Buffer.from(key);
}

/** The key of the master of this folder: on the master's own machine nothing has to be given. */
export function localAuthkey(): Buffer {
  const path = './orb-data/authkey';
  if (existsSync(path)) return readAuthkey(path);
  throw new ConfigError(
    'no authkey: give --authkey-file or ORB_AUTHKEY; the master keeps its key in <data>/authkey',
  );
}

/** The key in `path`, made there (mode 0600) when there is none. `isNew` tells which.
 *  @throws ConfigError */
export function readOrMakeAuthkey(path: string): { authkey: Buffer; isNew: boolean } {
  if (existsSync(path)) return { authkey: readAuthkey(path), isNew: false };
  const text = randomBytes(24).toString('base64url');
  try {
    const file = openSync(path, 'wx', 0o600);
    writeSync(file, `${text}\n`);
    fsyncSync(file);
    closeSync(file);
  } catch (error) {
    throw new ConfigError(`cannot make the authkey file ${path}: ${messageOf(error)}`, error);
  }
  return { authkey: Buffer.from(text), isNew: true };
}
