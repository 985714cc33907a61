/** The keys that let a peer in. */
import { AuthkeyFile, authkeyBytesMin } from '../../shared/authkey.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { isLoopback } from '../../shared/url.ts';

export type AuthkeyOptions = {
  /** The key itself; undefined: the ones in `authkeyFile`. */
  readonly authkey: Buffer | undefined;
  readonly authkeyFile: string;
  /** Where the master listens. */
  readonly host: string;
};

/** Returns them as their file has them now. @throws ConfigError */
export function authkeysOf(
  { authkey, authkeyFile, host }: AuthkeyOptions,
  log: Logger,
): () => readonly Buffer[] {
  if (authkey !== undefined) {
    refuseWeakKey(authkey, host);
    return () => [authkey];
  }
  const file = new AuthkeyFile(authkeyFile, (error) => {
    log.error(`${messageOf(error)}; the keys of before are still taken`);
  });
  for (const key of file.keys) refuseWeakKey(key, host);
  return () => file.keys;
}

function refuseWeakKey(authkey: Buffer, host: string): void {
  if (isLoopback(host) || authkey.length >= authkeyBytesMin) return;
  throw new ConfigError(
    `the authkey has ${authkey.length} bytes; on an address that others can reach it needs ` +
      `${authkeyBytesMin}: use a longer one, or --listen 127.0.0.1:6666`,
  );
}
