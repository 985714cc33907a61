/** The authkeys that the master accepts. */
import { AuthkeyFile, authkeyBytesMin } from '../../shared/authkey.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { isLoopback } from '../../shared/url.ts';

type AuthkeyOptions = {
  /** The key itself; undefined: the ones in `authkeyFile`. */
  readonly authkey: Buffer | undefined;
  readonly authkeyFile: string;
  /** The address on which the master listens. */
  readonly host: string;
};

/** Returns a function that returns the keys in the file now. @throws ConfigError */
export function authkeysOf(
  { authkey, authkeyFile, host }: AuthkeyOptions,
  log: Logger,
): () => readonly Buffer[] {
  if (authkey !== undefined) {
    refuseWeakKey(authkey, host);
    return () => [authkey];
  }
  const file = new AuthkeyFile(authkeyFile, (error) => {
    log.error(`${messageOf(error)}; the previous keys stay valid`);
  });
  for (const key of file.keys) refuseWeakKey(key, host);
  return () => file.keys;
}

function refuseWeakKey(authkey: Buffer, host: string): void {
  if (isLoopback(host) || authkey.length >= authkeyBytesMin) return;
  throw new ConfigError(
    `the authkey has ${authkey.length} bytes; an address that other machines can reach needs ` +
      `${authkeyBytesMin}: use a longer key, or listen on this machine alone: --listen 127.0.0.1:PORT`,
  );
}
