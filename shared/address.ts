/**
 * Which addresses may be connected to: the pure part of the address guard. An address is public
 * only if it is known to be: global unicast, in no special-purpose range. What a host name in a URL
 * says in digits (`0x7f.1`, `2130706433`, `[::ffff:127.0.0.1]`) is told by the URL Standard's own
 * host parser, so that guard and connection never read it differently.
 * Source: IANA special-purpose address registries (RFC 6890), URL Standard, "host parsing".
 * Called by the slave's guard and by the options of both programs.
 */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { ConfigError } from './errors.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = { readonly base: Address; readonly bits: number };

const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');
/** Azure's host agent answers here, on an address that is public by its number alone. */
const platform = new Set(['168.63.129.16']);

/**
 * Whether `ip`, an address as a resolver gives it, is global unicast. Anything else, text that is
 * no address included, is not. Of the addresses that carry another, an IPv4-mapped one and one
 * behind the well-known NAT64 prefix count as what they carry (RFC 6052: IPv6-only networks reach
 * IPv4 by it); 6to4, Teredo and IPv4-compatible ones are refused whatever they carry.
 */
export function isPublicAddress(ip: string): boolean {
  const address = parse(ip);
  return address !== undefined && isPublic(address);
}

function isPublic(address: Address): boolean {
  if (address instanceof ipaddr.IPv4)
    return address.range() === 'unicast' && !platform.has(address.toString());
  if (address.match(nat64)) return isPublic(new ipaddr.IPv4(address.toByteArray().slice(12)));
  // The library knows special ranges; what lies outside 2000::/3 and is not special is not
  // assigned, or is old (`::127.0.0.1`).
  return address.match(globalUnicast) && address.range() === 'unicast';
}

/**
 * The address that a URL's host names in digits, without brackets, or undefined for a name. Takes
 * hosts as they stand in `URL.hostname` and as people write them: octal, hexadecimal, short forms,
 * full-width digits, percent-encoded. Source: URL Standard, "host parsing", "IPv4 parser".
 */
export function hostLiteralAddress(hostname: string): string | undefined {
  // Nothing that would end or begin another part of the URL.
  if (hostname === '' || /[/?#@\\\s]/.test(hostname)) return undefined;
  const bracketed = isIP(hostname) === 6 ? `[${hostname}]` : hostname;
  let host: string;
  try {
    host = new URL(`http://${bracketed}/`).hostname;
  } catch {
    return undefined;
  }
  const literal = host.startsWith('[') ? host.slice(1, -1) : host;
  return isIP(literal) === 0 ? undefined : literal;
}

/** The address of a connection's other end, of `address:port`. */
export function addressOfPeer(peer: string): string {
  return peer.slice(0, peer.lastIndexOf(':'));
}

/** What one peer can choose its addresses from: an IPv4 address, or the first 64 bits of an IPv6
 *  one (RFC 6177: a site has at least those). Text that is no address stays as it is. */
export function networkOf(ip: string): string {
  const address = parse(ip.split('%', 1)[0] ?? '');
  if (address === undefined) return ip;
  if (address instanceof ipaddr.IPv4) return address.toString();
  return address.toNormalizedString().split(':', 4).join(':');
}

/** Is it a CIDR range or a single address, as `AddressPolicy` takes them? */
export function isAddressRange(text: string): boolean {
  try {
    rangeOf(text);
    return true;
  } catch {
    return false;
  }
}

/** What may be connected to: every public address, and what the operator allows besides. */
export class AddressPolicy {
  readonly #all: boolean;
  readonly #ranges: readonly Range[];

  /** `allow`: `all`, or CIDR ranges or single addresses (`10.0.0.0/8`, `::1`) beside the public
   *  ones. Throws a ConfigError for a range that is none. */
  constructor(allow: 'all' | readonly string[] = []) {
    this.#all = allow === 'all';
    this.#ranges = allow === 'all' ? [] : allow.map(rangeOf);
  }

  /** May a connection go to `ip`? Text that is no address never may. */
  allows(ip: string): boolean {
    const address = parse(ip);
    if (address === undefined) return false;
    return this.#all || isPublic(address) || this.#ranges.some((range) => contains(range, address));
  }
}

/** An IPv4-mapped address is the IPv4 address: the system connects to that one. */
function parse(ip: string): Address | undefined {
  // isIP takes only what a connection takes; the library would also take `0x7f.1`.
  // A zone (`fe80::1%eth0`) makes an address of one link of it, never a public one.
  const version = isIP(ip);
  if (version === 0 || ip.includes('%')) return undefined;
  // The library reads `::8.8.8.8`, as inet_ntop writes ::808:808, as ::ffff:8.8.8.8.
  return ipaddr.process(version === 6 && ip.includes('.') ? withoutDots(ip) : ip);
}

function withoutDots(ip: string): string {
  return new URL(`http://[${ip}]/`).hostname.slice(1, -1);
}

function contains({ base, bits }: Range, address: Address): boolean {
  return base.kind() === address.kind() && address.match(base, bits);
}

function rangeOf(text: string): Range {
  const [ip = '', bitsText, more] = text.trim().split('/');
  const version = isIP(ip);
  const bitsMax = version === 6 ? 128 : 32;
  const bits = bitsText === undefined ? bitsMax : Number(bitsText);
  const digits = bitsText === undefined || /^\d{1,3}$/.test(bitsText);
  if (version === 0 || ip.includes('%') || more !== undefined || !digits || bits > bitsMax) {
    const shown = JSON.stringify(text.slice(0, 64));
    throw new ConfigError(
      `${shown} is not an address range; write it as 10.0.0.0/8, fd00::/8 or 127.0.0.1`,
    );
  }
  const base = ipaddr.parse(version === 6 ? withoutDots(ip) : ip);
  // A range within ::ffff:0:0/96 is a range of IPv4 addresses.
  if (base instanceof ipaddr.IPv6 && base.isIPv4MappedAddress() && bits >= 96)
    return { base: base.toIPv4Address(), bits: bits - 96 };
  return { base, bits };
}
