/**
 * The address guard for connections. It has two parts, and both must be used:
 *
 * checkUrl(url)      before every request and redirect: hosts in digits, which never reach a
 *                      lookup, and schemes other than http and https
 * guardedLookup(..)  as `connect: { lookup }` of an undici Agent: names; resolves, and hands only
 *                      allowed addresses to the socket
 *
 * The checked addresses are the ones connected to, so a name whose answer changes in between (DNS
 * rebinding) gains nothing. A host that the operator named as a seed may also be in the private
 * blocks where the master found it. It has its own Agent with a policy for these: a lookup knows no
 * port, so one Agent could not distinguish `localhost:8000` from `localhost:6379`. Behind a proxy
 * there is no lookup: the proxy resolves, and must guard; names that are always local are refused
 * here all the same.
 * Source: docs/scope.md, "Private addresses".
 */
import { isIP, type LookupFunction } from 'node:net';
import { type AddressPolicy, hostLiteralAddress, isLocalName } from '../../shared/address.ts';
import { type AddressCache, LookupError, type ResolvedAddress } from '../../shared/resolver.ts';

/** The policy refuses the address; a FetchError of kind `blocked`. Not retryable. */
export class BlockedError extends Error {
  readonly kind = 'blocked';
  readonly code = 'ORB_BLOCKED';

  constructor(message: string) {
    super(message);
    this.name = 'BlockedError';
  }
}

function notPublic(host: string, address: string): BlockedError {
  const which = address === host ? host : `${host} (${address})`;
  return new BlockedError(
    `${which.slice(0, 300)} is not a public address; --allow-private opens it`,
  );
}

/**
 * Returns why `url` must not be requested, or undefined if the lookup decides. Call it before every
 * request: the first, each redirect, meta refresh and image. `isProxied`: there is no lookup, so
 * names are checked here.
 */
export function checkUrl(
  url: URL,
  policy: AddressPolicy,
  { isProxied = false } = {},
): BlockedError | undefined {
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    return new BlockedError(`${url.protocol} is not http or https`);
  const isLocal = isProxied && isLocalName(url.hostname);
  const address = isLocal ? '127.0.0.1' : hostLiteralAddress(url.hostname);
  if (address === undefined || policy.allows(address)) return undefined;
  return notPublic(url.hostname, address);
}

/**
 * A `lookup` for `new Agent({ connect: { lookup } })` that returns only addresses that `policy`
 * allows, IPv4 first. Errors: BlockedError if the name has addresses but none is allowed; a
 * LookupError otherwise. Takes `all` and `family` as net.connect sends them.
 */
export function guardedLookup(cache: AddressCache, policy: AddressPolicy): LookupFunction {
  return (hostname, options, callback) => {
    const family = familyOf(options.family);
    // nextTick: an error in the callback belongs to the socket and must not become our rejection.
    const fail = (error: Error) => process.nextTick(callback, error, '', 0);
    addressesOf(cache, hostname).then((addresses) => {
      const ofFamily = addresses.filter((one) => family === 0 || one.family === family);
      const allowed = ofFamily.filter((one) => policy.allows(one.address));
      const [first] = allowed;
      if (first === undefined) fail(noneError(hostname, ofFamily));
      else if (options.all) process.nextTick(callback, null, allowed);
      else process.nextTick(callback, null, first.address, first.family);
    }, fail);
  };
}

async function addressesOf(
  cache: AddressCache,
  hostname: string,
): Promise<readonly ResolvedAddress[]> {
  const version = isIP(hostname);
  if (version !== 0) return [{ address: hostname, family: version }];
  return await cache.resolve(hostname);
}

function noneError(hostname: string, refused: readonly ResolvedAddress[]): Error {
  const [first] = refused;
  if (first !== undefined) return notPublic(hostname, first.address);
  return new LookupError(`${hostname} has no address of this family`, 'ENOTFOUND');
}

function familyOf(family: number | 'IPv4' | 'IPv6' | undefined): number {
  if (family === 'IPv4') return 4;
  if (family === 'IPv6') return 6;
  return family ?? 0;
}
