/** Shared by the outputs: where they are, the secrets of their targets, drivers, words of
 *  errors. */
import { join } from 'node:path';
import { ConfigError, codeOf, messageOf } from '../../../shared/errors.ts';
import { waitForFarAddresses } from '../../../shared/far-addresses.ts';
import { type NamedOutput, variable } from '../../../shared/outputs.ts';
import { HeldError, UnavailableError } from '../sink.ts';

export type OutputContext = {
  /** `<out>`: a folder for each crawl. */
  readonly folder: string;
  /** Variables that the secrets of targets are read from. */
  readonly env: Readonly<Record<string, string | undefined>>;
};

/** The path of a file output: a name lies in the folder of the crawl. */
export function pathOf({ folder }: OutputContext, crawl: string, { target }: NamedOutput): string {
  return target.startsWith('/') ? target : join(folder, crawl, target);
}

/** The URL of a database, with the values of its variables.
 *  @throws HeldError a variable is not set */
export function urlOf({ env }: OutputContext, { target }: NamedOutput): string {
  const isWhole = /^\$\w+$/.test(target);
  return target.replace(variable, (_, name: string) => {
    const value = env[name];
    if (value === undefined || value === '') {
      throw new HeldError(
        `the variable ${name} is not set where the master runs; set it and start the master again`,
      );
    }
    return isWhole ? value : encodeURIComponent(value);
  });
}

/** Loads a driver that stands beside master.js, or above it.
 *  @throws HeldError it is not installed */
export async function driver<T>(name: string, version: string, load: () => Promise<T>): Promise<T> {
  waitForFarAddresses();
  try {
    return await load();
  } catch (error) {
    const code = codeOf(error);
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw error;
    throw new HeldError(
      `its driver is not installed; run npm install ${name}@${version} in the folder of master.js, ` +
        'then start the master again',
      error,
    );
  }
}

/** Of Node, of OpenSSL, and of the driver of MySQL, which has one code for all. */
const ofTls =
  /^(?:ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA|HANDSHAKE_SSL)/;
/** The authority that signed the certificate is not known. Source: OpenSSL, verify(1). */
const ofAuthority = /self-signed certificate|unable to (?:get|verify)/;

/** Returns the fault that an error of TLS is; undefined: it is another one. The crawl waits, since
 *  its operator can put it right at the server alone. */
export function tlsFault(error: Error): UnavailableError | undefined {
  const code = codeOf(error) ?? '';
  if (!ofTls.test(code)) return undefined;
  const text = messageOf(error) || code;
  const how = ": start the master with NODE_EXTRA_CA_CERTS, the file of the server's authority";
  return new UnavailableError(ofAuthority.test(text) ? text + how : text, error);
}

/** The same error with the name of the output in front, and without what is secret. */
export function named(name: string, error: unknown): unknown {
  if (!(error instanceof ConfigError)) return error;
  const message = `${name}: ${messageOf(error)}`;
  if (error instanceof HeldError) return new HeldError(message, error);
  if (error instanceof UnavailableError) return new UnavailableError(message, error);
  return new ConfigError(message, error.cause);
}
