/**
 * Tells names that cannot be resolved now from name servers that answer for no name at all. While
 * they do not, a fetch says nothing about its host: it is put off, as where this machine lacks
 * something else, and counts as no attempt. Otherwise half a minute without name servers would bury
 * every host that a broad crawl meets in it.
 *
 *     answering --a name fails, names of other domains fail, too--> out
 *     out --some name is answered, or 10 minutes are over--> answering
 */
import { Resolver } from 'node:dns/promises';
import { codeOf } from '../../shared/errors.ts';
import {
  AddressCache,
  isUnknownName,
  LookupError,
  type Resolve,
  systemResolve,
} from '../../shared/resolver.ts';
import { noNamesCode } from '../lack.ts';

/** Settles as a query for that name does, without the hosts file. */
type Ask = (hostname: string) => Promise<unknown>;

type OutageOptions = {
  readonly resolve?: Resolve;
  readonly ask?: Ask;
  readonly now?: () => number;
};

/** Of failures that may be those of all names. Source: Node, `dns` error codes; getaddrinfo(3). */
const passingCodes: readonly unknown[] = [
  'ETIMEOUT',
  'ESERVFAIL',
  'EREFUSED',
  'ECONNREFUSED',
  'ENOTIMP',
  'EAI_AGAIN',
  'EAI_FAIL',
];
/** Domains of which a name is kept, and names that are asked for to tell. */
const keptMax = 16;
const askedMax = 3;
/** Together with two tries of the name itself it is shorter than the limit of a look-up. */
const askMs = 2_000;
/** For so long an answer about the name servers is used. */
const toldMs = 1_000;
/** After this each failure counts again, so that no crawl waits for ever. */
const outMsMax = 600_000;

/** The names that a slave has resolved. */
export function slaveAddresses(): AddressCache {
  return new AddressCache(outageAware());
}

/** Returns a resolver that rejects with the code `noNamesCode` while no name server answers. */
export function outageAware(options: OutageOptions = {}): Resolve {
  const { resolve = systemResolve(), ask = askOnce, now = () => performance.now() } = options;
  /** Names that were resolved, by their domain; the newest last. */
  const known = new Map<string, string>();
  let outSince: number | undefined;
  let told: { readonly isOut: Promise<boolean>; readonly until: number } | undefined;

  const isOutNow = (domain: string): Promise<boolean> => {
    if (told !== undefined && now() < told.until) return told.isOut;
    const others = [...known].filter(([other]) => other !== domain).slice(-askedMax);
    if (others.length === 0) return Promise.resolve(false);
    const isOut = Promise.all(others.map(([, name]) => ask(name).then(isAnswer, isNoAnswer))).then(
      (silent) => silent.every(Boolean),
    );
    told = { isOut, until: Number.POSITIVE_INFINITY };
    void isOut.then(() => {
      told = { isOut, until: now() + toldMs };
    });
    return isOut;
  };

  return async (hostname) => {
    const domain = domainOf(hostname);
    try {
      const resolved = await resolve(hostname);
      outSince = undefined;
      known.delete(domain);
      known.set(domain, hostname);
      for (const oldest of known.keys()) {
        if (known.size <= keptMax) break;
        known.delete(oldest);
      }
      return resolved;
    } catch (error) {
      if (!passingCodes.includes(codeOf(error))) throw error;
      const isOut = await isOutNow(domain);
      outSince = isOut ? (outSince ?? now()) : undefined;
      if (outSince === undefined || now() - outSince > outMsMax) throw error;
      throw new LookupError('no name server answers', noNamesCode);
    }
  };
}

const isAnswer = () => false;
const isNoAnswer = (error: unknown) => !isUnknownName(error) || codeOf(error) === 'ECONNREFUSED';

function askOnce(hostname: string): Promise<unknown> {
  return new Resolver({ timeout: askMs, tries: 1 }).resolve4(hostname);
}

/** Its last two labels: names of one zone fail together. */
function domainOf(hostname: string): string {
  return hostname.split('.').slice(-2).join('.');
}
