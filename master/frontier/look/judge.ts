/**
 * Decides about a URL that a crawl does not have as if a link to it came now, and names what
 * decides: the option, the pattern, the line of robots.txt. The checks are those of a commit
 * (`CommitBatch`), in the same order, then those that a URL meets when its turn comes. Nothing is
 * counted or changed.
 */

import { AddressPolicy, hostLiteralAddress } from '../../../shared/address.ts';
import { amount } from '../../../shared/amount.ts';
import { productToken } from '../../../shared/crawl.ts';
import { type SkipReason, skipReasons, type TrapRule } from '../../../shared/protocol.ts';
import { hostKeyOf } from '../../../shared/url.ts';
import type { UrlRule } from '../../../shared/url-fate.ts';
import type { RobotsRecord } from '../../store/records.ts';
import type { Crawl } from '../crawl/crawl.ts';
import { decidingLine } from '../robots/deciding-line.ts';

/** The state of the host of a URL. */
type HostFacts = {
  readonly robots?: { readonly record: RobotsRecord; readonly file: Uint8Array } | undefined;
  readonly isBlocked: boolean;
};

/** Why a URL is left out; `text` ends a sentence that begins with "it would be". */
export type Judgement = { readonly rule: UrlRule; readonly text: string };

/** Hosts of seeds that are named. */
const hostsShown = 3;
/** A longer robots.txt line, or pattern, is cut. */
const shownChars = 200;

/** Why the crawl would not take a link to a canonical URL; `depth`: of the link, if that is known.
 *  `hasSeen`: was this name ever admitted? */
export function judgeLink(
  crawl: Crawl,
  url: URL,
  hasSeen: (name: string) => boolean,
  depth?: number,
): Judgement | undefined {
  const { scope, traps } = crawl.rules;
  const { spec } = crawl;
  if (scope.isElsewhere(url)) return skipped('host', crawl, url);
  const look = traps.looks(url) ?? scope.refusesText(url.href);
  if (look !== undefined) return skipped(look, crawl, url);
  const linkDepth = depth ?? 1;
  if (linkDepth > (spec.maxDepth ?? linkDepth)) return skipped('depth', crawl, url);
  const plain = traps.withoutSession(url);
  if (plain !== undefined && hasSeen(plain)) return skipped('session', crawl, url);
  const counted = traps.wouldRefuse(url, linkDepth);
  return counted === undefined ? undefined : skipped(counted, crawl, url);
}

/** Why a URL would not be fetched when its turn comes; undefined: it would. */
export function judgeFetch(
  crawl: Crawl,
  url: URL,
  { robots, isBlocked }: HostFacts,
): Judgement | undefined {
  const address = addressFault(crawl, url);
  if (address !== undefined) return address;
  const { ignoreRobots, fetch } = crawl.spec;
  if (!ignoreRobots && robots !== undefined) {
    const fault = robotsFault(url, robots, productToken(fetch.userAgent));
    if (fault !== undefined) return fault;
  }
  if (!isBlocked) return undefined;
  const text = `held back: ${url.host} is blocked; run host ${url.host} --unblock`;
  return { rule: { by: 'blocked' }, text };
}

/** The same in words for a reason that is known, whatever the crawl says now. */
export function skipped(reason: SkipReason, crawl: Crawl, url: URL): Judgement {
  const { spec } = crawl;
  const { scope } = crawl.rules;
  switch (reason) {
    case 'host':
      return {
        rule: { by: 'host' },
        text: `refused by --scope ${spec.scope}: ${scopeText(crawl)}`,
      };
    case 'include': {
      const count = amount(spec.include.length, 'pattern');
      return { rule: { by: 'include' }, text: `refused by --include: it matches none of ${count}` };
    }
    case 'exclude': {
      const pattern = scope.excludedBy(url.href);
      const named = pattern === undefined ? '' : ` ${quoted(pattern)}`;
      const rule = { by: 'exclude', ...(pattern !== undefined && { pattern }) } as const;
      return { rule, text: `refused by --exclude${named}` };
    }
    case 'depth': {
      const text = `refused by --max-depth ${spec.maxDepth ?? '(of then)'}: it is linked too deep`;
      return { rule: { by: 'depth' }, text };
    }
    default:
      return { rule: { by: reason }, text: `refused as a trap: ${trapText(reason, crawl, url)}` };
  }
}

/** Is this a reason for which links are skipped? */
export function isSkipReason(reason: unknown): reason is SkipReason {
  const reasons: readonly unknown[] = skipReasons;
  return reasons.includes(reason);
}

/** The objection of a robots.txt to a URL; undefined: it may be fetched. */
function robotsFault(
  url: URL,
  { record, file }: NonNullable<HostFacts['robots']>,
  token: string,
): Judgement | undefined {
  const { access, error, isTrying } = record;
  if (access === 'none') return undefined;
  if (access === 'unreachable') {
    if (isTrying) return undefined;
    const why = error === undefined ? '' : ` (${error.kind}: ${error.message})`;
    const text = `given up: robots.txt of ${url.host} is out of reach${why}`;
    return { rule: { by: 'robots' }, text };
  }
  const { allows, line, text } = decidingLine(file, token, url.pathname + url.search);
  if (allows) return undefined;
  if (line === undefined || text === undefined) {
    const why = `disallowed by robots.txt of ${url.host}: its patterns take too long to match`;
    return { rule: { by: 'robots' }, text: why };
  }
  return {
    rule: { by: 'robots', line, pattern: text },
    text: `disallowed by line ${line} of robots.txt of ${url.host}: ${text}`,
  };
}

/** A name is resolved by slaves when they connect; an address can be judged here. */
function addressFault(crawl: Crawl, url: URL): Judgement | undefined {
  const { spec } = crawl;
  const address = hostLiteralAddress(url.hostname);
  if (address === undefined) return undefined;
  const blocks = crawl.rules.seedHosts.blocksOf(hostKeyOf(url));
  if (new AddressPolicy(spec.fetch.allowPrivate, blocks).allows(address)) return undefined;
  const text = `refused: ${address} is not a public address; --allow-private opens it`;
  return { rule: { by: 'address' }, text };
}

function scopeText({ spec, rules: { scope } }: Crawl): string {
  const { named, followed } = scope.kept;
  const hosts = [...named, ...followed];
  const shown = hosts.slice(0, hostsShown).join(', ');
  const more =
    hosts.length > hostsShown ? ` and ${amount(hosts.length - hostsShown, 'more', 'more')}` : '';
  const where = spec.scope === 'domain' ? 'the domains of its seeds' : 'the hosts of its seeds';
  return `it is not on ${where} (${shown}${more})`;
}

function trapText(rule: TrapRule, { rules: { traps } }: Crawl, url: URL): string {
  const option = `--traps ${rule}=${traps.limits[rule]}`;
  switch (rule) {
    case 'length':
      return `${option}; it has ${amount(url.href.length, 'character')}`;
    case 'segments':
      return `${option}; its path has more segments`;
    case 'repeats':
      return `${option}; segments of its path repeat`;
    case 'parameters':
      return `${option}; its query has more parameters`;
    case 'session':
      return `${option}; it differs by a session id from ${traps.withoutSession(url) ?? 'another'}`;
    case 'queries':
      return `${option}; its path has that many URLs with three parameters or more`;
    case 'similar':
      return `${option}; that many URLs differ from it by numbers alone`;
    default:
      return rule satisfies never;
  }
}

function quoted(text: string): string {
  return JSON.stringify(text.length > shownChars ? `${text.slice(0, shownChars)}…` : text);
}
