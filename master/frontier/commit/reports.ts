/**
 * The answers of slaves for their tasks: a report, a part of a sitemap, a robots.txt, a failure.
 * Each claims its task, updates its host's pace, and goes through the pipeline, to be acknowledged
 * when it is on the disk. Also what politeness and dispatcher find without an answer: a host that a
 * crawl meets, and tasks that are given up, or refused by the state of their host.
 */
import type { ImageFacts } from '../../../shared/images.ts';
import type { FetchErrorBody } from '../../../shared/requests.ts';
import { hostKeyOf } from '../../../shared/url.ts';
import { pageDone } from '../../../shared/warm-up.ts';
import type { Content } from '../../archive/contents.ts';
import type { Upload } from '../../archive/uploads.ts';
import { clockMs } from '../../machine/clock.ts';
import type { Place } from '../../store/image-rows.ts';
import type { FoundItems } from '../../store/result-rows.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Crawls } from '../crawl/crawls.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { LossEvents } from '../dispatch/dispatcher-options.ts';
import type { Claim, LeaseHolder } from '../dispatch/leases.ts';
import { kindOf } from '../kinds/kinds.ts';
import { sitemapsOf } from '../kinds/sitemap.ts';
import type { Feedback } from '../politeness/feedback.ts';
import type { Host } from '../politeness/host.ts';
import type { Refusal, WorkEvents } from '../politeness/next-task.ts';
import type { Politeness } from '../politeness/politeness.ts';
import type { RobotsAnswer } from '../robots/gate.ts';
import { backOffMs, isLasting } from '../tasks/back-off.ts';
import type { Task } from '../tasks/tasks.ts';
import type { FrontierTrace } from '../trace.ts';
import type { Archiving } from './archiving.ts';
import {
  type Answer,
  type Entry,
  type FailedFetch,
  type Failure,
  type Origin,
  type Report,
  type SitemapPart,
  smallEntryBytes,
  type Verdict,
} from './entry.ts';
import type { ImagesPort } from './images-port.ts';
import { linkBytesMax, partsOf } from './link-parts.ts';
import { imageValues, type Pictures } from './pictures.ts';
import type { Pipeline } from './pipeline.ts';

type ReportsOptions = {
  readonly crawls: Crawls;
  readonly dispatcher: Dispatcher;
  readonly politeness: Politeness;
  readonly feedback: Feedback;
  readonly pipeline: Pipeline;
  readonly archiving: Archiving;
  /** Default: no bytes are kept. */
  readonly images?: ImagesPort | undefined;
  readonly pictures?: Pick<Pictures, 'ready'> | undefined;
  /** The images of a crawl cannot be written. */
  readonly onFault?: (crawl: Crawl, why: string) => void;
  readonly trace?: FrontierTrace | undefined;
};

const none = new Uint8Array(0);
/** A slave that takes so many leases fetches on while it waits for an answer, and a host with so
 *  many tasks waiting needs what this one led to only later, as does one that is asked so slowly
 *  that a part of them takes a while. */
const unhurriedCredit = 8;
const unhurriedWaiting = 64;
const unhurriedMs = 250;
const slowPart = 1 / 4;
const slowMsMax = 1_000;
/** Memory of an image's metadata, in bytes, about. */
const imageEntryBytes = 2_048;
/** Of a row of an item besides its values, about; of one that was rejected, with them. */
const rowBytes = 64;
const rejectedBytes = 256;

type Followed = NonNullable<Report['follow']>;
type SitemapEntry = Extract<Entry, { kind: 'sitemap' }>;

export class Reports implements WorkEvents, LossEvents {
  readonly #options: ReportsOptions;

  constructor(options: ReportsOptions) {
    this.#options = options;
  }

  /** Takes an answer. Resolves when it is on the disk. */
  report(claim: Claim, answer: Answer): Promise<Verdict> {
    switch (answer.verb) {
      case 'task.report':
        return this.#report(claim, answer, answer.upload);
      case 'task.sitemap':
        return this.#part(claim, answer, answer.upload);
      case 'task.image':
        return this.#image(claim, answer);
      case 'task.robots':
        return this.#robots(claim, answer);
      default:
        return answer satisfies never;
    }
  }

  async #report(claim: Claim, report: Report, upload: Upload | undefined): Promise<Verdict> {
    const { crawls, dispatcher, feedback, pipeline, archiving } = this.#options;
    pageDone();
    if (upload === undefined) this.#refuseUnarchived(claim);
    const { task, host } = dispatcher.claim(claim) ?? {};
    const crawl = task && crawls.of(task);
    if (task === undefined || crawl === undefined) {
      upload?.drop();
      return 'stale';
    }
    const { holder } = claim;
    if (kindOf(task).answeredBy !== 'task.report') {
      upload?.drop();
      return await this.#mistaken(task, 'a page', holder);
    }
    if (host !== undefined) feedback.reported(host, report.result);
    const slave = holder.name;
    const { result, images, packed, items } = report;
    // No `await`: it would keep the links until they are on the disk.
    return new Promise((done) =>
      archiving.first(crawl, task, upload, (archived) => {
        const links = { total: 0 };
        const rest = this.#putFirstLinks(crawl, task, report.links, links);
        const follow = report.follow && this.#putFirstFollowed(crawl, task, report.follow, links);
        // No spread of objects here: each takes a microsecond.
        let bytes = smallEntryBytes + rest.length + images.length * 128 + bytesOf(items);
        for (const followed of follow ?? []) bytes += followed.links.length;
        const last = { result, images, links: rest, packed, items, follow };
        const kind = 'report';
        const mayWaitMs = hurryOf(crawl, task, holder, host);
        pipeline.put({
          kind,
          crawl,
          bytes,
          archived,
          mayWaitMs,
          task,
          report: last,
          links,
          slave,
          done,
        });
      }),
    );
  }

  /** An image: its bytes are on the disk before its entry goes on. */
  async #image(
    claim: Claim,
    { result, facts, content, upload }: Extract<Answer, { verb: 'task.image' }>,
  ): Promise<Verdict> {
    const { crawls, dispatcher, feedback, pipeline, archiving } = this.#options;
    if (upload === undefined) this.#refuseUnarchived(claim);
    const { task, host } = dispatcher.claim(claim) ?? {};
    const crawl = task && crawls.of(task);
    if (task === undefined || crawl === undefined) {
      upload?.drop();
      return 'stale';
    }
    if (kindOf(task).answeredBy !== 'task.image') {
      upload?.drop();
      return await this.#mistaken(task, 'an image', claim.holder);
    }
    if (host !== undefined) feedback.reported(host, result);
    const slave = claim.holder.name;
    const { thumbnail, ...kept } = facts ?? {};
    const picture = { result, facts: facts && { ...kept, ...(thumbnail && { thumbnail }) } };
    const settle = await this.#compared(crawl, facts);
    return new Promise((done) => {
      this.#keep({ crawl, task, facts, content }, (sentBytes, place) =>
        archiving.first(crawl, task, upload, (archived) => {
          const mayWaitMs = hurryOf(crawl, task, claim.holder, host);
          const bytes = imageEntryBytes;
          const entry = { kind: 'image', crawl, bytes, archived, mayWaitMs } as const;
          pipeline.put({ ...entry, task, picture: { ...picture, sentBytes, place }, slave, done });
        }),
      );
      settle?.();
    });
  }

  /** Resolves when an image can be compared with those before it; with what is to be called when
   *  its entry is expected. */
  async #compared(crawl: Crawl, facts: ImageFacts | undefined): Promise<(() => void) | undefined> {
    const { pictures, pipeline } = this.#options;
    const ready = facts?.dhash && pictures?.ready(crawl);
    if (ready === undefined) return undefined;
    const settle = pipeline.expect(crawl, imageEntryBytes);
    await ready;
    return settle;
  }

  /** Has the bytes of an image written, then calls `then`: at once, if there are none. */
  #keep(
    {
      crawl,
      task,
      facts,
      content,
    }: { crawl: Crawl; task: Task; facts: ImageFacts | undefined; content: Content | undefined },
    then: (sentBytes: number | 'lost' | undefined, place?: Place) => void,
  ): void {
    const { images, pipeline } = this.#options;
    const { sha256, type, thumbnail } = facts ?? {};
    if (images === undefined || !content || sha256 === undefined || type === undefined) {
      then(undefined);
      return;
    }
    const settle = pipeline.expect(crawl, smallEntryBytes);
    const name = Buffer.from(sha256).toString('hex');
    const about = {
      url: task.url,
      sha256: name,
      bytes: content.bytes,
      ...imageValues(facts ?? {}),
    };
    const image = { ...content, sha256: name, type, thumbnail, about };
    images.append(crawl, image, (fault, place) => {
      if (fault !== undefined) this.#options.onFault?.(crawl, fault);
      then(fault === undefined ? content.bytes : 'lost', place);
      settle();
    });
  }

  /** Has the crawl of this task an image of these bytes? `lost`: the task has ended. */
  knows(claim: Claim, sha256: Uint8Array): 'have' | 'send' | 'lost' {
    const { crawls, dispatcher, images } = this.#options;
    const task = dispatcher.open(claim);
    const crawl = task && crawls.of(task);
    const download = crawl?.spec.fetch.download;
    if (crawl === undefined || download === undefined || images === undefined) return 'lost';
    if (download.images.store === 'none') return 'have';
    return images.has(crawl, sha256) ? 'have' : 'send';
  }

  #refuseUnarchived(claim: Claim): void {
    const { archiving, crawls, dispatcher } = this.#options;
    if (crawls.demanding.size === 0) return;
    const task = dispatcher.open(claim);
    archiving.refuseWithout(undefined, task && crawls.of(task));
  }

  /** A part of a sitemap; the last one ends its lease. */
  #part(claim: Claim, part: SitemapPart, upload: Upload | undefined): Promise<Verdict> {
    const { crawls, dispatcher, pipeline, archiving } = this.#options;
    if (upload === undefined && part.end !== undefined) this.#refuseUnarchived(claim);
    const task = dispatcher.open(claim);
    const crawl = task && crawls.of(task);
    const isListed = task !== undefined && kindOf(task).answeredBy === 'task.sitemap';
    if (task === undefined || crawl === undefined || !isListed) {
      upload?.drop();
      return Promise.resolve('stale');
    }
    if (part.end !== undefined) dispatcher.claim(claim);
    const slave = claim.holder.name;
    return new Promise((done) =>
      archiving.first(crawl, task, upload, (archived) => {
        const { kind, end } = part;
        const put = (piece: SitemapPart, last: Pick<SitemapEntry, 'archived' | 'done'>) => {
          const bytes = smallEntryBytes + piece.urls.length + piece.images.length;
          pipeline.put({ kind: 'sitemap', crawl, bytes, task, part: piece, slave, ...last });
        };
        const [urls, images] = [partsOf(part.urls), partsOf(part.images)];
        const more = { done: () => {} };
        for (const some of urls.parts) put({ kind, urls: some, images: none }, more);
        for (const some of images.parts) put({ kind, urls: none, images: some }, more);
        put({ kind, urls: urls.rest, images: images.rest, end }, { archived, done });
      }),
    );
  }

  async #robots(
    claim: Claim,
    { answer, file, upload }: Extract<Answer, { verb: 'task.robots' }>,
  ): Promise<Verdict> {
    const { dispatcher, feedback } = this.#options;
    const { task, host } = dispatcher.claim(claim) ?? {};
    if (task === undefined) {
      upload?.drop();
      return 'stale';
    }
    await this.#archiveAlone(task, upload);
    if (kindOf(task).answeredBy !== 'task.robots') {
      return await this.#mistaken(task, 'a robots.txt', claim.holder);
    }
    if (host !== undefined) feedback.robots(host, answer);
    return await this.#learn(task, answer, file);
  }

  /** Takes a failed fetch: retried later, or buried. Resolves when it is on the disk. */
  async fail(claim: Claim, failed: FailedFetch): Promise<Verdict> {
    const { error, retryAfterMs = 0, isFinal = false, upload } = failed;
    const { dispatcher, feedback } = this.#options;
    const { task, host } = dispatcher.claim(claim) ?? {};
    if (task === undefined) {
      upload?.drop();
      return 'stale';
    }
    if (host !== undefined) feedback.failed(host, error, retryAfterMs);
    const slave = claim.holder.name;
    return await this.#attemptFailed(task, error, { retryAfterMs, isFinal, slave, upload });
  }

  /** A task that no entry ends. */
  async #archiveAlone(task: Task, upload: Upload | undefined): Promise<void> {
    const { crawls, archiving } = this.#options;
    const crawl = crawls.of(task);
    if (upload !== undefined && crawl !== undefined) await archiving.alone(crawl, task, upload);
  }

  /** The host's robots.txt is known, and the crawl starts there: offers the host's sitemaps. The
   *  filter knows those that the crawl has, so repeated calls are harmless. */
  met(host: Host, crawlId: number): void {
    const { crawls, pipeline } = this.#options;
    const crawl = crawls.byId(crawlId);
    if (crawl === undefined) return;
    const { urls, level } = sitemapsOf(crawl, host);
    if (urls.length === 0) return;
    const bytes = urls.length * smallEntryBytes;
    pipeline.put({ kind: 'sitemaps', crawl, bytes, urls, level });
  }

  /** A page that kills its slaves is buried, however many attempts are left. */
  hopeless(task: Task, slave: string): void {
    const error = { kind: 'lost', message: 'every slave that had it was lost' } as const;
    if (kindOf(task).owner === 'host') void this.#learn(task, { error });
    else void this.#fail({ task, error, retryAt: undefined, slave });
  }

  /** A task that its crawl's options or its host's robots.txt leave out, or whose host cannot be
   *  reached. */
  refused(host: Host, task: Task, why: Refusal): void {
    const { crawls, politeness, pipeline } = this.#options;
    const crawl = crawls.of(task);
    const done = () => {
      host.refused--;
      politeness.wake(host, clockMs());
    };
    const bytes = smallEntryBytes;
    if (crawl === undefined) done();
    else if (typeof why === 'string') {
      const excluded = why === 'scope' ? 'scope' : 'robots';
      pipeline.put({ kind: 'excluded', crawl, bytes, task, excluded, done });
    } else {
      const failure = { ...why, task, retryAt: undefined, slave: '' };
      pipeline.put({ kind: 'failure', crawl, bytes, failure, done });
    }
  }

  /** Answered as another kind, by a slave that does not know its kind, or lies. */
  #mistaken(task: Task, as: string, { name }: LeaseHolder): Promise<Verdict> {
    const error = { kind: 'protocol', message: `it was answered as ${as}` } as const;
    return this.#attemptFailed(task, error, { slave: name });
  }

  /** Offers all but the last links of a page with very many links first, separately, so that no
   *  commit takes long. The page ends with the last links: after a crash in between it is fetched
   *  again, with some of its links known. */
  #putFirstLinks(
    crawl: Crawl,
    from: Origin,
    links: Uint8Array,
    found: { total: number },
    keptBytes = linkBytesMax,
  ): Uint8Array {
    const { parts, rest } = partsOf(links, keptBytes);
    for (const part of parts) {
      const bytes = part.length;
      this.#options.pipeline.put({ kind: 'links', crawl, bytes, from, part, links: found });
    }
    return rest;
  }

  /** The same of links that have priorities of their own; what stays is no more in all. */
  #putFirstFollowed(
    crawl: Crawl,
    { url, depth }: Task,
    follow: Followed,
    found: { total: number },
  ): Followed {
    let keptBytes = linkBytesMax;
    return follow.map(({ priority, links }) => {
      const from = { url, depth, priority };
      const rest = this.#putFirstLinks(crawl, from, links, found, keptBytes);
      keptBytes = Math.max(0, keptBytes - rest.length);
      return { priority, links: rest };
    });
  }

  /** An attempt failed: retries with a growing wait, or ends the task. For a task of a host, the
   *  host's record has the time. */
  #attemptFailed(
    task: Task,
    error: FetchErrorBody,
    {
      slave,
      retryAfterMs = 0,
      isFinal = false,
      upload,
    }: {
      slave: string;
      retryAfterMs?: number;
      isFinal?: boolean;
      upload?: Upload | undefined;
    },
  ): Promise<Verdict> {
    if (kindOf(task).owner === 'host') {
      const learn = () => this.#learn(task, { error, retryAfterMs, isFinal });
      return this.#archiveAlone(task, upload).then(learn);
    }
    const waitMs = backOffMs(task.attempts, Math.random(), retryAfterMs);
    const retryAt = isFinal || isLasting(error) ? undefined : clockMs() + waitMs;
    // A fault of a proxy does not count against the page.
    const attempts = task.attempts + (error.kind === 'proxy' ? 0 : 1);
    return this.#fail({ task, error, retryAt, slave, attempts }, upload);
  }

  async #fail(failure: Failure, upload?: Upload): Promise<Verdict> {
    const { crawls, pipeline, archiving } = this.#options;
    const crawl = crawls.of(failure.task);
    if (crawl === undefined) {
      upload?.drop();
      return 'stale';
    }
    this.#trace(crawl, failure);
    const bytes = smallEntryBytes;
    return await new Promise((done) =>
      archiving.first(
        crawl,
        failure.task,
        upload,
        (archived) => pipeline.put({ kind: 'failure', crawl, bytes, archived, failure, done }),
        false,
      ),
    );
  }

  #trace(crawl: Crawl, { task, error, attempts = task.attempts + 1, retryAt }: Failure): void {
    const isLast = attempts >= crawl.spec.attemptsMax;
    this.#options.trace?.failed(task.url, error, attempts, isLast ? undefined : retryAt);
  }

  /** Stores the result of a robots.txt; then its host continues. */
  async #learn(task: Task, answer: RobotsAnswer, file?: Uint8Array): Promise<Verdict> {
    const { crawls, dispatcher, feedback } = this.#options;
    const attemptsMax = crawls.of(task)?.spec.attemptsMax ?? 1;
    await feedback.learn(hostKeyOf(new URL(task.url)), answer, file, attemptsMax);
    dispatcher.dispatchSoon();
    return 'done';
  }
}

/** Memory of the items of a page, in bytes, about. */
function bytesOf(items: FoundItems | undefined): number {
  if (items === undefined) return 0;
  const { rows, rejected } = items;
  return rows.bytes.length + rows.count * rowBytes + rejected.length * rejectedBytes;
}

/** How long the commit of an answer may wait, in ms. */
function hurryOf(crawl: Crawl, task: Task, slave: LeaseHolder, host: Host | undefined): number {
  const { waiting } = task.queue;
  if (slave.credit < unhurriedCredit) return 0;
  // By other orders, what the page led to may have to go before all that waits.
  const isInOrder = crawl.spec.order === 'bfs' && crawl.spec.fetch.follow === undefined;
  const slowMs = isInOrder ? waiting * slowPart * (host?.group.delayMs ?? 0) : 0;
  return Math.max(Math.min(slowMs, slowMsMax), waiting > unhurriedWaiting ? unhurriedMs : 0);
}
