/**
 * The addresses that a slave may connect to: the pure part of the address guard. An address is
 * public only if it is known to be: global unicast, in no special-purpose range. Numeric host names
 * of URLs (`0x7f.1`, `2130706433`, `[::ffff:127.0.0.1]`) are read by the URL Standard's own host
 * parser, so that guard and connection never read them differently.
 *
 * This file also decides what a seed opens. The master resolves the host of a seed once and keeps
 * the private blocks of its addresses. Slaves connect to public addresses and to those blocks, so
 * that a name that changes later (DNS rebinding) reaches nothing that its seed did not reach.
 * Source: IANA special-purpose address registries (RFC 6890), URL Standard, "host parsing".
 * Called by the slave's guard, by the master for seeds, and by the options of both programs.
 */
import { isIP, isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { ConfigError } from './errors.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = { readonly base: Address; readonly bits: number };

const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');
/** Azure's host agent answers here, on an address that is public by its number alone. */
const platform = new Set(['168.63.129.16']);

/** Names of the machine that resolves them. Source: RFC 6761, 6.3. */
const localName = /(^|\.)localhost\.?$/i;
/** A machine has both, and a hosts file may name either. */
const loopback = ['127.0.0.0/8', '::1/128'] as const;
/** The blocks of private networks, laboratories included. A name at any other address that is not
 *  public (link-local, multicast, `0.0.0.0`, a tunnel) opens nothing.
 *  Source: RFC 1918, 4193, 6598, 3879 (site-local), 2544, 5180, 5737, 3849, 9637. */
const privateBlocks = [
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  'fc00::/7',
  'fec0::/10',
  '198.18.0.0/15',
  '2001:2::/48',
  '192.0.2.0/24',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '2001:db8::/32',
  '3fff::/20',
].map((text) => ({ text, range: ownRange(text) }));
/** The addresses where clouds serve a machine's metadata, its credentials included: the link-local
 *  addresses of nearly all, and those of AWS, Google, Oracle, Scaleway, Linode, Alibaba and Azure.
 *  No block includes them. Source: the manuals of these clouds. */
const metadata = [
  '169.254.0.0/16',
  'fe80::/10',
  'fd00:ec2::/32',
  'fd20:ce::254',
  'fd00:c1::a9fe:a9fe',
  '192.0.0.192',
  'fd00:42::42',
  'fd00:a9fe:a9fe::1',
  '100.100.100.200',
  'fd00:100::100:200',
  ...platform,
].map(ownRange);
const ownRanges = new Map([
  ...privateBlocks.map(({ text, range }) => [text, range] as const),
  ...loopback.map((text) => [text, ownRange(text)] as const),
]);

/** A range that is written in this file. */
function ownRange(text: string): Range {
  const [base, bits] = ipaddr.parseCIDR(text.includes('/') ? text : `${text}/${wholeBits(text)}`);
  return { base, bits };
}

function wholeBits(ip: string): number {
  return ip.includes(':') ? 128 : 32;
}

/** As `isIP`, which takes 3 ms to make its expression for IPv6 when it first meets what is no IPv4
 *  address. */
function versionOf(ip: string): 0 | 4 | 6 {
  if (!ip.includes(':')) return isIPv4(ip) ? 4 : 0;
  return isIP(ip) === 6 ? 6 : 0;
}

/**
 * Returns whether `ip`, an address from a resolver, is global unicast. Text that is not an address
 * is not. Some addresses embed another. An IPv4-mapped address, and one with the well-known NAT64
 * prefix, count as the embedded address (RFC 6052: IPv6-only networks reach IPv4 by it); 6to4,
 * Teredo and IPv4-compatible addresses are always refused.
 */
export function isPublicAddress(ip: string): boolean {
  const address = parse(ip);
  return address !== undefined && isPublic(address);
}

function isPublic(address: Address): boolean {
  if (address instanceof ipaddr.IPv4)
    return address.range() === 'unicast' && !platform.has(address.toString());
  if (address.match(nat64)) return isPublic(new ipaddr.IPv4(address.toByteArray().slice(12)));
  // The library knows special ranges. Other addresses outside 2000::/3 are unassigned, or obsolete
  // (`::127.0.0.1`).
  return address.match(globalUnicast) && address.range() === 'unicast';
}

/**
 * Returns the address of a numeric host, without brackets, or undefined for a name. Takes hosts as
 * in `URL.hostname` and as people write them: octal, hexadecimal, short forms, full-width digits,
 * percent-encoded. Source: URL Standard, "host parsing", "IPv4 parser".
 */
export function hostLiteralAddress(hostname: string): string | undefined {
  // No character that would end the host or begin another part of the URL.
  if (hostname === '' || /[/?#@\\\s]/.test(hostname)) return undefined;
  const bracketed = versionOf(hostname) === 6 ? `[${hostname}]` : hostname;
  let host: string;
  try {
    host = new URL(`http://${bracketed}/`).hostname;
  } catch {
    return undefined;
  }
  const literal = host.startsWith('[') ? host.slice(1, -1) : host;
  return versionOf(literal) === 0 ? undefined : literal;
}

/** Is it a name of the machine that resolves it? */
export function isLocalName(hostname: string): boolean {
  return localName.test(hostname);
}

/** Returns the private blocks of a seed's host without a look-up; undefined for a name that needs
 *  one. A numeric host opens its own address, whichever it is. */
export function blocksOfHost(hostname: string): readonly string[] | undefined {
  if (isLocalName(hostname)) return loopback;
  const address = hostLiteralAddress(hostname);
  if (address === undefined) return undefined;
  if (isPublicAddress(address)) return [];
  const blocks = blocksOfAddresses([address]);
  return blocks.length > 0 ? blocks : [address];
}

/** Returns the private blocks of a name's addresses, each once; [] if no address is in one. */
export function blocksOfAddresses(addresses: readonly string[]): readonly string[] {
  const blocks = new Set<string>();
  for (const ip of addresses) {
    const address = parse(ip);
    if (address === undefined || metadata.some((range) => contains(range, address))) continue;
    if (address.range() === 'loopback') for (const block of loopback) blocks.add(block);
    const found = privateBlocks.find(({ range }) => contains(range, address));
    if (found !== undefined) blocks.add(found.text);
  }
  return [...blocks];
}

/** The address of a connection's other end, of `address:port`. */
export function addressOfPeer(peer: string): string {
  return peer.slice(0, peer.lastIndexOf(':'));
}

/** Returns the network of a peer: an IPv4 address, or the first 64 bits of an IPv6 address (RFC
 *  6177: a site can use all addresses of at least a /64). Other text is returned unchanged. */
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

/** The addresses that may be connected to: public ones, and those that the operator allows. */
export class AddressPolicy {
  readonly #all: boolean;
  readonly #ranges: readonly Range[];
  readonly #blocks: readonly Range[];

  /** `allow`: `all`, or CIDR ranges or single addresses (`10.0.0.0/8`, `::1`), besides the public
   *  ones. `blocks`: the blocks that a seed opened, from `blocksOfHost`; a metadata address is in
   *  none of them, unless it is listed itself. @throws ConfigError not a range. */
  constructor(allow: 'all' | readonly string[] = [], blocks: readonly string[] = []) {
    this.#all = allow === 'all';
    this.#ranges = allow === 'all' ? [] : allow.map(rangeOf);
    this.#blocks = blocks.map(rangeOf);
  }

  /** May a connection go to `ip`? False for text that is not an address. */
  allows(ip: string): boolean {
    const address = parse(ip);
    if (address === undefined) return false;
    if (this.#all || isPublic(address)) return true;
    return this.#ranges.some((range) => contains(range, address)) || this.#isOpened(address);
  }

  #isOpened(address: Address): boolean {
    const within = this.#blocks.filter((range) => contains(range, address));
    if (within.length === 0) return false;
    const isItself = within.some(({ base, bits }) => bits === bitsOf(base));
    return isItself || !metadata.some((range) => contains(range, address));
  }
}

/** An IPv4-mapped address is the IPv4 address: the system connects to that one. */
function parse(ip: string): Address | undefined {
  // isIP accepts only what a connection accepts; the library would also accept `0x7f.1`. An address
  // with a zone (`fe80::1%eth0`) belongs to one link and is never public.
  const version = versionOf(ip);
  if (version === 0 || ip.includes('%')) return undefined;
  // The library reads `::8.8.8.8`, as inet_ntop writes ::808:808, as ::ffff:8.8.8.8.
  return ipaddr.process(version === 6 && ip.includes('.') ? withoutDots(ip) : ip);
}

function withoutDots(ip: string): string {
  return new URL(`http://[${ip}]/`).hostname.slice(1, -1);
}

function bitsOf(address: Address): number {
  return address.kind() === 'ipv6' ? 128 : 32;
}

function contains({ base, bits }: Range, address: Address): boolean {
  return base.kind() === address.kind() && address.match(base, bits);
}

function rangeOf(text: string): Range {
  const own = ownRanges.get(text);
  if (own !== undefined) return own;
  const [ip = '', bitsText, more] = text.trim().split('/');
  const version = versionOf(ip);
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
