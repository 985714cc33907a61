/**
 * One crawl: its spec, scope, filter, counters and queues. It decides what is admitted; the
 * frontier decides when anything happens.
 */
import assert from 'node:assert/strict';
import { type CrawlState, trapLimitsSchema } from '../../../shared/crawl.ts';
import type { CrawlEnding, CrawlStatus } from '../../../shared/protocol.ts';
import { keepsViews } from '../../../shared/render.ts';
import {
  type CrawlCounters,
  type CrawlRecord,
  encodeTrapCounts,
  pageKind,
  type Removal,
  type SpecMark,
  trapsKey,
} from '../../store/records.ts';
import type { Change } from '../../store/store.ts';
import type { Filter } from '../filter/filter.ts';
import type { Host, Manners } from '../politeness/host.ts';
import type { TaskQueue } from '../tasks/tasks.ts';
import { Books } from './books.ts';
import type { CrawlView } from './crawl-view.ts';
import { endingOf } from './ending.ts';
import { ImageRoom } from './image-room.ts';
import { namedRows } from './ledger.ts';
import { LoginState } from './login-state.ts';
import { mannersOf } from './manners.ts';
import { type Able, isMet, nearest, needsOf, wantsOf } from './needs.ts';
import type { OpenWork } from './open-work.ts';
import type { PatternBudget } from './patterns.ts';
import { blockedOf, longestWaitMs } from './places.ts';
import type { Scope } from './scope.ts';
import type { SeedHosts } from './seed-hosts.ts';
import { markOf } from './spec-change.ts';
import type { Traps } from './traps.ts';
import { type Kept, type UrlRules, urlRulesOf } from './url-rules.ts';

/** The record; `held` is not in it: each start looks for itself. */
type LastingState = Exclude<CrawlState, 'held'>;

/** Where a crawl may go from a state. `cancelled` is the end. */
const nextStates: Readonly<Record<LastingState, readonly LastingState[]>> = {
  running: ['paused', 'finished', 'cancelled'],
  paused: ['running', 'cancelled'],
  finished: ['running', 'cancelled'],
  cancelled: [],
};

/** A host where a crawl has tasks in memory. */
export type Place = { readonly crawl: Crawl; readonly host: Host; readonly queue: TaskQueue };

export class Crawl implements CrawlView {
  readonly id: number;
  /** Another one that it is getting, on record before anything is moved. */
  renaming: string | undefined;
  readonly secret: Uint8Array;
  readonly login = new LoginState();
  readonly images = new ImageRoom(this);
  /** 16 random bytes: no other crawl of any master has them. */
  readonly uid: Uint8Array;
  readonly startedAt: number;
  readonly filter: Filter;
  /** Its numbers, which it alone changes. */
  readonly books: Books;
  /** Those in memory, by the bytes of the host's hash: how a task on the wire names its host. */
  readonly queues = new Map<string, Place>();
  #name: string;
  #spec: CrawlRecord['spec'];
  readonly #readKept: () => Kept;
  readonly #patternBudget: PatternBudget | undefined;
  readonly #server: Able;
  #rules: UrlRules | undefined;
  #state: LastingState;
  #removal: Removal | undefined;
  #held: string | undefined;
  #isHoldPassing = false;
  #isResolving = false;
  #isAside = false;
  #awaitsRules: boolean;
  #specVersion: number;
  #isNarrowed: boolean;
  #asStarted: SpecMark | undefined;
  #nextSeq: number;
  #nextCommit: number;
  #nextRecord: number;
  #nextSource: number;
  readonly #openMsBefore: number;
  readonly #openSince = performance.now();

  /** `readKept` reads what the store has of it in other rows, when that is wanted. */
  constructor(
    record: CrawlRecord,
    filter: Filter,
    readKept: () => Kept = () => ({}),
    patternBudget?: PatternBudget,
    server: Able = { abilities: [~0] },
  ) {
    this.id = record.id;
    this.#name = record.name;
    this.renaming = record.renaming;
    this.#spec = record.spec;
    // Copies: the record's would keep its whole row in memory.
    this.secret = Uint8Array.from(record.secret);
    this.startedAt = record.startedAt;
    this.#openMsBefore = record.openMs ?? 0;
    this.#state = record.state;
    this.books = new Books(record);
    this.filter = filter;
    this.#removal = record.removal;
    this.#readKept = readKept;
    this.#patternBudget = patternBudget;
    this.#server = server;
    this.#nextSeq = record.nextSeq;
    this.#nextCommit = record.nextCommit;
    this.#nextRecord = record.nextRecord;
    this.#nextSource = record.nextSource ?? 1;
    this.uid = Uint8Array.from(record.uid);
    this.#specVersion = record.specVersion;
    this.#isNarrowed = record.narrowed === true;
    this.#asStarted = record.asStarted;
    this.#awaitsRules = this.hasRules;
  }

  get name(): string {
    return this.#name;
  }

  /** It has the name that it was getting. */
  renamed(): void {
    this.#name = this.renaming ?? this.#name;
    this.renaming = undefined;
  }

  get spec(): CrawlRecord['spec'] {
    return this.#spec;
  }

  /** Its options change. Its knowledge of hosts and of traps stays. `isNarrower`: URLs that wait
   *  may no longer belong to it. `isStart`: by the options of a start. */
  respec(spec: CrawlRecord['spec'], { isNarrower = false, isStart = false } = {}): void {
    if (isStart) this.#asStarted = undefined;
    else this.#asStarted ??= markOf(this.#spec);
    this.#spec = spec;
    this.#specVersion++;
    this.#isNarrowed ||= isNarrower;
    if (this.#rules === undefined) return;
    const { scope, seedHosts, traps } = this.#rules;
    scope.respec(spec);
    seedHosts.respec(spec);
    traps.respec(trapLimitsSchema.parse(spec.traps ?? {}));
  }

  /** Its options when it was last started. */
  get asStarted(): SpecMark {
    return this.#asStarted ?? markOf(this.#spec);
  }

  /** True: since its options changed, a URL that waits may not belong to it any more. */
  get isNarrowed(): boolean {
    return this.#isNarrowed;
  }

  get scope(): Scope {
    return this.#ruled.scope;
  }

  get seedHosts(): SeedHosts {
    return this.#ruled.seedHosts;
  }

  get traps(): Traps {
    return this.#ruled.traps;
  }

  /** The same to be looked at, whether it is open or not: nothing of it is kept in memory. */
  get rules(): UrlRules {
    return this.#rules ?? this.#makeRules();
  }

  get #ruled(): UrlRules {
    this.#rules ??= this.#makeRules();
    return this.#rules;
  }

  #makeRules(): UrlRules {
    return urlRulesOf(this.spec, this.#readKept(), this.#patternBudget);
  }

  /** True: it has ended, for now or for good, and nothing of it is under way. */
  get isAtRest(): boolean {
    const { isUnderWay, unwritten } = this.open;
    return !this.isOpen && !isUnderWay && unwritten === 0;
  }

  /** Frees the memory that only an open crawl needs. All that it knows is on the disk. */
  rest(): void {
    this.#rules?.scope.close();
    this.#rules = undefined;
    this.filter.sleep();
  }

  /** How far its removal is; undefined: nobody has removed it. */
  get removal(): Removal | undefined {
    return this.#removal;
  }

  /** An operator removes it: it is cancelled, if it was not. */
  remove(removal: Removal): void {
    if (this.#state !== 'cancelled') this.moveTo('cancelled');
    this.#removal = removal;
  }

  get state(): LastingState {
    return this.#state;
  }

  /** Why the crawl neither fetches nor writes: a target of its sinks is not as they left it, or too
   *  much waits for one. */
  get held(): string | undefined {
    return this.#held ?? this.images.fault ?? this.login.fault;
  }

  /** It is held, and does not go on by itself. */
  get isStuck(): boolean {
    const { images, login } = this;
    if (this.#held !== undefined && !this.#isHoldPassing) return true;
    return (images.fault ?? login.fault) !== undefined;
  }

  /** `isPassing`: until a sink has written. */
  hold(reason: string, isPassing: boolean): void {
    this.#held = reason;
    this.#isHoldPassing = isPassing;
  }

  release(): void {
    this.#held = undefined;
  }

  /** It waits for the operator until this master ends: another crawl was to be fetched alone. */
  get isAside(): boolean {
    return this.#isAside;
  }

  setAside(isAside: boolean): void {
    this.#isAside = isAside;
  }

  /** It keeps answers, in an archive or as files. */
  get isArchived(): boolean {
    return (this.#spec.fetch.archive ?? this.#spec.fetch.save) !== undefined;
  }

  /** The same, or what a browser made of it is. */
  get hasKept(): boolean {
    return this.isArchived || keepsViews(this.#spec.fetch);
  }

  /** No slave that is connected can do what it needs. */
  get #lacksSlaves(): boolean {
    const needed = needsOf(this.#spec.fetch);
    return needed !== 0 && !isMet(needed, nearest(needed, this.#server));
  }

  /** It has items or follow rules, which only slaves that know rules evaluate. */
  get hasRules(): boolean {
    const { items = {}, follow } = this.#spec.fetch;
    return follow !== undefined || Object.keys(items).length > 0;
  }

  /** No such slave is connected: no page of it is leased. */
  get awaitsRules(): boolean {
    return this.#awaitsRules;
  }

  awaitRules(isWaiting: boolean): void {
    this.#awaitsRules = isWaiting;
  }

  /** While hosts of its seeds are looked up, no task of it is leased: a private host would be
   *  refused and its pages given up. */
  resolving(isResolving: boolean): void {
    this.#isResolving = isResolving;
  }

  /** The one place where the state changes. */
  moveTo(state: LastingState): void {
    const from = this.#state;
    assert.ok(nextStates[from].includes(state), `a crawl does not go from ${from} to ${state}`);
    this.#state = state;
    if (state === 'cancelled') this.books.dropped();
  }

  get counters(): Readonly<CrawlCounters> {
    return this.books.counters;
  }

  get open(): OpenWork {
    return this.books.open;
  }

  record(): CrawlRecord {
    const rules = this.books.rules.kept;
    return {
      id: this.id,
      name: this.name,
      state: this.state,
      spec: this.spec,
      secret: this.secret,
      nextSeq: this.#nextSeq,
      nextCommit: this.#nextCommit,
      nextRecord: this.#nextRecord,
      nextSource: this.#nextSource,
      uid: this.uid,
      specVersion: this.#specVersion,
      counters: this.counters,
      ledger: this.books.ledger?.kept,
      seeds: this.books.seeds.record,
      ...(rules && { rules }),
      ...(this.books.downloads && { downloads: this.books.downloads }),
      seenSum: this.books.seenSum,
      startedAt: this.startedAt,
      openMs: this.openMs,
      ...(this.renaming !== undefined && { renaming: this.renaming }),
      ...(this.#removal !== undefined && { removal: this.#removal }),
      ...(this.#isNarrowed && { narrowed: true }),
      ...(this.#asStarted && { asStarted: this.#asStarted }),
    };
  }

  /** For how long masters had it, as far as that is on record. The wall clock may jump. */
  get openMs(): number {
    return this.#openMsBefore + Math.round(performance.now() - this.#openSince);
  }

  /** The change that records the counts of its trap rules, if that is due. */
  trapChanges(atEnd = false): Change[] {
    const counts = this.#rules?.traps.unsaved(atEnd);
    if (counts === undefined) return [];
    return [{ table: 'meta', key: trapsKey(this.id), value: encodeTrapCounts(counts) }];
  }

  takeSeq(): number {
    return this.#nextSeq++;
  }

  /** Number of a page or sitemap that leads to URLs. */
  takeSource(): number {
    return this.#nextSource++;
  }

  takeCommit(): number {
    return this.#nextCommit++;
  }

  /** Takes numbers for records of the result queue. Returns the first. */
  takeRecords(count: number): number {
    const first = this.#nextRecord;
    this.#nextRecord += count;
    return first;
  }

  /** Number of the last record that was gathered. */
  get lastRecord(): number {
    return this.#nextRecord - 1;
  }

  /** Number of the last commit that was gathered. */
  get lastCommit(): number {
    return this.#nextCommit - 1;
  }

  /** Where a URL stands in its host's queue; lower comes first. */
  rank(depth: number, priority: number): number {
    switch (this.spec.order) {
      case 'bfs':
        return depth + 1; // 0: what goes first
      case 'dfs':
        return 0xffffffff - depth;
      case 'priority':
        return (0x7fff - priority) * 0x10000 + depth;
      default:
        return this.spec.order satisfies never;
    }
  }

  manners(host: URL): Manners {
    return mannersOf(this.spec, host);
  }

  /** May its tasks be leased? With a page limit, no more than could still become pages; images of
   *  pages that are done always may. */
  get active(): boolean {
    const { maxPages } = this.spec;
    const { leased, offered } = this.open;
    if (!this.isRunning || this.#isResolving || this.#awaitsRules) return false;
    if (this.#lacksSlaves) return false;
    if (maxPages === undefined || this.counters.pages + leased + offered < maxPages) return true;
    return this.images.waiting > 0;
  }

  /** See `longestWaitMs`. Hosts that are parked are not counted. */
  get slowestHostMs(): number {
    return longestWaitMs(this.queues.values());
  }

  /** Its hosts from which the operator lets nothing be fetched, and what waits there. */
  get blocked(): { hosts: number; waiting: number } {
    return blockedOf(this.queues.values());
  }

  get isRunning(): boolean {
    return this.#state === 'running' && this.held === undefined && !this.#isAside;
  }

  /** Neither finished nor cancelled. */
  get isOpen(): boolean {
    return this.state === 'running' || this.state === 'paused';
  }

  /** Nothing is offered, waiting or leased; or the page limit is reached and nothing is under
   *  way. */
  get isFetched(): boolean {
    const isEnough = this.isFull && !this.open.isUnderWay && this.images.waiting === 0;
    return this.open.isFetched || isEnough;
  }

  /** All is fetched and written: the crawl may end. This is asked nowhere else. */
  get isDone(): boolean {
    return this.isRunning && this.isFetched && this.open.unwritten === 0;
  }

  get isFull(): boolean {
    return this.spec.maxPages !== undefined && this.counters.pages >= this.spec.maxPages;
  }

  /** No seed of it was answered, and nothing else was fetched: it may be started anew. */
  get isUnanswered(): boolean {
    const { books } = this;
    const isNothing = books.counters.pages === 0 && books.open.waiting === 0;
    return this.#state === 'finished' && isNothing && books.seeds.isUnanswered;
  }

  get #shownState(): CrawlStatus['state'] {
    if (this.held !== undefined) return 'held';
    return this.#isAside && this.#state === 'running' ? 'paused' : this.#state;
  }

  /** Why it ended; undefined: it has not. */
  get ending(): CrawlEnding | undefined {
    const { counters, spec, state } = this;
    const seeds = this.books.seeds.record;
    const admitted = this.books.ledger?.rows[pageKind]?.admitted ?? counters.known;
    return endingOf({ state, spec, counters, seeds, admitted, waiting: this.open.waiting });
  }

  status(): CrawlStatus {
    const { seen: _, sitemaps: __, earlier: ___, lost: ____, ...counters } = this.counters;
    const { ledger, examples, rules } = this.books;
    const { ending, held } = this;
    const { fetch } = this.spec;
    const { named, failed } = rules;
    return {
      name: this.name,
      state: this.#shownState,
      ...(held !== undefined && { held }),
      leased: this.open.leased,
      unwritten: this.open.unwritten,
      ...counters,
      ...(failed > 0 && { errors: { ...counters.errors, rule: failed } }),
      ...(named && { rules: named }),
      ...(this.#awaitsRules && this.isRunning && { wantsRules: true as const }),
      ...(this.isRunning && wantsOf(fetch, this.#server)),
      ...(Object.keys(examples).length > 0 && { examples }),
      ...(ledger && { ledger: namedRows(ledger) }),
      ...(ending && { ending }),
    };
  }
}
