/**
 * URLs that operators offer to a crawl: seeds, the URLs of an earlier crawl, and buried ones.
 * Decides which of them belong to the crawl and adds those to the commit batch. The frontier calls
 * it.
 */
import { limits } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import type { SeedRequest } from '../../../shared/requests.ts';
import { canonicalUrl, hostKeyOf } from '../../../shared/url.ts';
import { decodeBuried, encodeRequest, pageKind, requestKey } from '../../store/records.ts';
import type { Change, Row } from '../../store/store.ts';
import type { FoundAddresses } from '../crawl/seed-hosts.ts';
import type { RecentTable } from '../filter/recent.ts';
import { crawlKindOf } from '../kinds/kinds.ts';
import type { Politeness } from '../politeness/politeness.ts';
import type { HostRecords } from '../politeness/records.ts';
import { requestName } from '../tasks/task-requests.ts';
import type { CommitBatch } from './commit-batch.ts';
import type { EarlierUrl, Entry, SeedVerdict } from './entry.ts';
import { hostsChange, seedHostChanges } from './seed-changes.ts';

type SeedOffer = Pick<Extract<Entry, { kind: 'seeds' }>, 'urls' | 'requests' | 'priority'>;

export class Seeding {
  readonly #politeness: Politeness;
  readonly #records: HostRecords;
  readonly #recent: RecentTable;

  constructor(politeness: Politeness, records: HostRecords, recent: RecentTable) {
    this.#politeness = politeness;
    this.#records = records;
    this.#recent = recent;
  }

  /** Seeds, which add their hosts to the scope. */
  seeds(
    batch: CommitBatch,
    { urls: texts, requests, priority }: SeedOffer,
    found: FoundAddresses,
  ): SeedVerdict {
    const verdict: SeedVerdict = { admitted: 0, known: 0, refused: [] };
    const { scope } = batch.crawl;
    const urls: { text: string; url: URL | undefined; request?: SeedRequest }[] = [
      ...texts.map((text) => ({ text, url: canonicalUrl(text) })),
      ...requests.map((request) => ({
        text: request.url,
        url: canonicalUrl(request.url),
        request,
      })),
    ];
    this.#open(batch, urls, found);
    const { books, state } = batch.crawl;
    // Its operator starts it again.
    const isAgain = state === 'finished' && books.seeds.isUnanswered;
    if (isAgain) books.seeds.clear();
    for (const { text, url: asked, request } of urls) {
      const why = asked && scope.refuses(asked);
      const url = asked && request ? named(asked, request) : asked;
      if (url === undefined) verdict.refused.push({ url: text, why: 'not an http or https URL' });
      else if (why) {
        verdict.refused.push({ url: text, why: `left out by --${why}` });
        books.seeds.refuse(text, `left out by --${why}`);
      } else if (batch.seed(url, priority) || (isAgain && batch.seedAgain(url))) {
        if (request !== undefined) batch.also([requestChange(batch.crawl.id, url, request)]);
        this.#retry(batch, hostKeyOf(url));
        verdict.admitted++;
      } else verdict.known++;
    }
    if (verdict.admitted > 0) goOn(batch);
    return verdict;
  }

  /** URLs of an earlier crawl; those of depth 0 are seeds. */
  again(
    batch: CommitBatch,
    again: readonly EarlierUrl[],
    found: FoundAddresses,
  ): Replies['crawl.recrawl'] {
    const verdict = { admitted: 0, known: 0, refused: 0 };
    const { scope, spec } = batch.crawl;
    const offers = again.map(({ url, ...rest }) => ({ url: canonicalUrl(url), ...rest }));
    const seeds = offers.filter(({ depth }) => depth === 0);
    this.#open(batch, seeds, found);
    for (const { url, depth, page, from } of offers) {
      const isLeftOut = depth > (spec.maxDepth ?? depth) || (url && scope.refuses(url));
      if (url === undefined || isLeftOut) verdict.refused++;
      else if (batch.again(url, depth, page, from && canonicalUrl(from)?.href)) verdict.admitted++;
      else verdict.known++;
    }
    if (verdict.admitted > 0) goOn(batch);
    return verdict;
  }

  /** Buried URLs, to be fetched as if they were new. */
  replay(batch: CommitBatch, rows: readonly Row[]): void {
    for (const { key, value } of rows) {
      const record = decodeBuried(value);
      this.#retry(batch, hostKeyOf(new URL(record.url)));
      const { goesFirst } = crawlKindOf({ kind: record.task ?? pageKind });
      batch.replay(record, key, goesFirst);
    }
    goOn(batch);
  }

  /** Adds these seeds' hosts to the scope, and opens the private addresses where they were
   *  found. */
  #open(
    batch: CommitBatch,
    seeds: readonly { readonly url: URL | undefined }[],
    found: FoundAddresses,
  ): void {
    const { id, scope, seedHosts, counters } = batch.crawl;
    const before = scope.seedHostCount;
    for (const { url } of seeds) {
      if (url !== undefined) batch.also(seedHostChanges(id, url, seedHosts.settle(url, found)));
    }
    const opened = seeds.filter(({ url }) => url !== undefined && scope.addSeed(url));
    // Links settled as out of scope may belong to the crawl now.
    if (opened.length > 0 && counters.seen > 0) this.#recent.clear();
    if (scope.seedHostCount !== before) batch.also([hostsChange(batch.crawl)]);
  }

  /** The operator wants URLs of this host, so it is tried again even if it was given up. */
  #retry(batch: CommitBatch, hostKey: string): void {
    const host = this.#politeness.known(hostKey);
    if (host !== undefined) host.retry();
    else batch.also(this.#records.forgiving(this.#politeness.hashOf(hostKey)));
  }
}

/** The URL that names the task of a request. */
function named(url: URL, request: SeedRequest): URL | undefined {
  const name = requestName(url, request);
  return name.length > limits.urlChars ? undefined : new URL(name);
}

function requestChange(crawl: number, { href }: URL, request: SeedRequest): Change {
  const { method, headers, body } = request;
  const value = encodeRequest({ method, headers, body });
  return { table: 'meta', key: requestKey(crawl, href), value };
}

/** A finished crawl has work again. */
function goOn({ crawl }: CommitBatch): void {
  if (crawl.state === 'finished') crawl.moveTo('running');
}
