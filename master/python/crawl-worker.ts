/**
 * A Python connection as a holder of leases, and when its tasks count as done. The protocol has no
 * acknowledgement, so tasks that were got without a put in between make a *round*:
 *
 *     get … get --put--> told --next get or empty()--> all done
 *        |        +--- Empty was answered, next get --> all done
 *        +--- orderly end --> all done        +--- died, or silent past the deadline --> all back
 *
 * A get right after a get proves nothing: the client may be collecting a batch.
 */
import type { Image, Result } from '../../shared/protocol.ts';
import { limits } from '../../shared/protocol.ts';
import type { Frontier } from '../frontier/frontier.ts';
import { keyOf } from '../frontier/gathering.ts';
import type { Lease, LeaseHolder } from '../frontier/leases.ts';
import type { Caller } from './proxied.ts';

/** What a client may tell of a page beside its images and links. */
export type Told = Partial<Pick<Result, 'finalUrl' | 'status' | 'type' | 'title' | 'bytes'>>;

type OpenTask = {
  readonly lease: Lease;
  readonly since: number;
  readonly images: Image[];
  links: string;
  isTold: boolean;
  told: Told;
};

/** `empty`: nothing can come; `stopping`: the master ends. */
export type Taken = { readonly url: string } | 'empty' | 'stopping';

const linksCharsMax = 4 << 20;
const extendEveryMs = 5_000;

export class CrawlWorker implements LeaseHolder {
  readonly name: string;
  readonly leases = new Set<Lease>();
  readonly #frontier: Frontier;
  readonly #open = new Map<string, OpenTask>();
  #room = 0;
  #waiting: ((taken: Taken) => void) | undefined;
  #latest: OpenTask | undefined;
  #isRoundOver = false;
  #extendedAt = 0;
  gotAt = 0;

  constructor(caller: Caller, frontier: Frontier) {
    this.name = `${caller.name}@${caller.peer}`.slice(-64);
    this.#frontier = frontier;
    caller.signal.addEventListener('abort', () => {
      this.#waiting = undefined;
    });
  }

  /** One more than it has, while its client waits in `get`. */
  get credit(): number {
    return this.#waiting === undefined ? 0 : this.#room;
  }

  get slots(): number {
    return this.credit;
  }

  get isWaiting(): boolean {
    return this.#waiting !== undefined;
  }

  push(leases: readonly Lease[]): void {
    for (const lease of leases) {
      if (this.#waiting === undefined) {
        this.#frontier.dispatcher.release(this, lease.id);
        continue;
      }
      const since = performance.now();
      const open = { lease, since, images: [], links: '', isTold: false, told: {} };
      this.#open.set(lease.task.url, open);
      this.#latest = open;
      this.gotAt = since;
      this.answer({ url: lease.task.url });
    }
  }

  cancel(leases: readonly Lease[]): void {
    for (const { task } of leases) this.#open.delete(task.url);
  }

  /** Resolves with the next page, or what `answer` is told first. */
  take(waitMs: number): Promise<Taken> {
    return new Promise((resolve) => {
      const isTimed = waitMs < 2 ** 31;
      const timer = isTimed ? setTimeout(() => this.answer('empty'), waitMs + 2) : undefined;
      this.#waiting = (taken) => {
        clearTimeout(timer);
        this.#waiting = undefined;
        resolve(taken);
      };
      // Fixed now: leases are counted before they are pushed.
      this.#room = this.leases.size + 1;
      this.#frontier.dispatcher.dispatchSoon();
    });
  }

  answer(taken: Taken): void {
    if (taken === 'empty') this.#isRoundOver = true;
    this.#waiting?.(taken);
  }

  /** The task that the client means: named, or the latest. */
  task(url?: string): OpenTask | undefined {
    if (url !== undefined) return this.#open.get(url);
    return this.#latest !== undefined && this.#open.has(this.#latest.lease.task.url)
      ? this.#latest
      : undefined;
  }

  /** Notes what was put; false when it has to be offered by itself. */
  note(open: OpenTask, links: readonly string[], images: readonly Image[], told: Told): boolean {
    this.#isRoundOver = true;
    open.isTold = true;
    Object.assign(open.told, told);
    if (open.links.length < linksCharsMax) open.links += links.map((url) => `${url}\n`).join('');
    if (open.images.length + images.length > limits.imagesMax) return false;
    open.images.push(...images);
    return true;
  }

  /** The client asks for more: what it had is done, if it shows so. */
  nextRound(): void {
    if (this.#isRoundOver) this.finishAll();
  }

  finishAll(): void {
    this.#isRoundOver = false;
    for (const url of [...this.#open.keys()]) this.finish(url);
  }

  /** Done: false when the client does not have it. */
  finish(url: string): boolean {
    const open = this.#open.get(url);
    if (open === undefined) return false;
    this.#open.delete(url);
    const { lease, images, links, told, since, isTold } = open;
    const status = told.status ?? (isTold ? 200 : 0);
    const result: Result = {
      finalUrl: url,
      bytes: 0,
      ms: performance.now() - since,
      ...(isTold && status === 200 ? { type: 'text/html' } : {}),
      ...told,
      status,
      ...(status >= 400 ? { error: { kind: 'status', message: `HTTP ${status}` } } : {}),
    };
    const report = { result, images, links: Buffer.from(links, 'latin1') };
    void this.#frontier.report(this, lease.id, keyOf(lease.task), report);
    return true;
  }

  /** Back, for later; buried when it comes back too often. */
  release(url: string): boolean {
    const open = this.#open.get(url);
    if (open === undefined) return false;
    this.#open.delete(url);
    const error = { kind: 'lost', message: 'released by a Python worker' } as const;
    void this.#frontier.fail(this, open.lease.id, keyOf(open.lease.task), error);
    return true;
  }

  get hasOpen(): boolean {
    return this.#open.size > 0;
  }

  /** It is alive: its leases run on. */
  touch(): void {
    const now = performance.now();
    if (this.#open.size === 0 || now - this.#extendedAt < extendEveryMs) return;
    this.#extendedAt = now;
    this.#frontier.dispatcher.extend(
      this,
      [...this.leases].map(({ id }) => id),
    );
  }
}
