/**
 * The state of one host's robots.txt, and its consequences for URLs. The file is the host's first
 * task; until it is known, crawls that obey it get no page of the host.
 *
 *     unknown --leased--> asking --learn--> known --askAt has passed--> unknown
 *        ^                  |
 *        +--released, lost--+   (a failure: again at `askAt`; too many: known, out of reach)
 *
 * `judge` returns the record to store; `learn` takes it, also after a restart. The file itself
 * stays in the store and is parsed once for each product token, while there is room for it. Pure:
 * time is an argument.
 * Called by the politeness and the frontier. Source: RFC 9309, sections 2.3 and 2.4.
 */
import type { HostRow } from '../../../shared/protocol.ts';
import type { FetchErrorBody } from '../../../shared/requests.ts';
import { kindNumbers, type RobotsRecord, type TaskRecord } from '../../store/records.ts';
import { backOffMs, isLasting } from '../tasks/back-off.ts';
import type { Task, TaskHome } from '../tasks/tasks.ts';
import { robotsVerdict } from './access.ts';
import { type ParsedHolder, RobotsBudget } from './budget.ts';
import { parseRobots, type Robots } from './parser.ts';

/** The result of a fetch of robots.txt. */
export type RobotsAnswer = { readonly retryAfterMs?: number | undefined } & (
  | { readonly status: number; readonly cacheControl?: string | undefined }
  /** `isFinal`: another attempt will fail the same way. */
  | { readonly error: FetchErrorBody; readonly isFinal?: boolean }
);

/** The decision about a URL: fetch it, leave it out, or give it up for this reason. */
export type Access = 'fetch' | 'excluded' | { readonly error: FetchErrorBody; attempts: number };

const unknownRecord: RobotsRecord = { access: 'none', askAt: 0, failures: 0, failingSince: 0 };

export class RobotsGate implements ParsedHolder {
  readonly #url: string;
  readonly #host: Buffer;
  readonly #load: () => Uint8Array | undefined;
  readonly #budget: RobotsBudget;
  /** By product token; undefined: none. An empty map would be as large as the rest of the gate. */
  #parsed: Map<string, Robots> | undefined;
  #state: 'unknown' | 'asking' | 'known' = 'unknown';
  #record = unknownRecord;
  #task: Task | undefined;
  /** Number of records learned. */
  edition = 0;

  /** `hostKey`: scheme, host and port. `load` reads the file, if a record says that it exists. */
  constructor(
    hostKey: string,
    host: Buffer,
    load: () => Uint8Array | undefined,
    budget = new RobotsBudget(),
  ) {
    this.#budget = budget;
    this.#url = `${hostKey}/robots.txt`;
    this.#host = host;
    this.#load = load;
  }

  /** Is the file known, so that pages may be fetched? */
  isOpen(now: number): boolean {
    return this.#state === 'known' && now < this.#record.askAt;
  }

  /** Returns when a page or the file may be fetched; never while the file is being fetched. */
  waitsUntil(now: number): number {
    if (this.#state === 'asking') return Number.POSITIVE_INFINITY;
    return this.isOpen(now) ? 0 : this.#record.askAt;
  }

  /** Returns the task that must be done before any page of the host; undefined: none now. */
  task(crawl: number, now: number): Task | undefined {
    if (this.#state === 'asking' || this.isOpen(now) || this.#record.askAt > now) return undefined;
    if (this.#task?.queue.crawl !== crawl) this.#task = this.#make(crawl);
    return this.#task;
  }

  /** Returns the file's verdict on a URL of this host; only while pages may be fetched. */
  access(token: string, url: string): Access {
    const { access, error, failures } = this.#record;
    if (access === 'none') return 'fetch';
    if (access === 'unreachable') {
      const unknown = { kind: 'protocol', message: 'no robots.txt' } as const;
      return { error: error ?? unknown, attempts: failures };
    }
    const robots = this.#robots(token);
    if (robots.rules.isEmpty) return 'fetch';
    // The name of a task with a request has a mark behind its URL.
    const end = url.indexOf('#');
    const path = url.slice(this.#url.length - '/robots.txt'.length, end < 0 ? undefined : end);
    return robots.allows(path) ? 'fetch' : 'excluded';
  }

  /** Returns the sitemaps that the file names, as written; only while pages may be fetched. */
  sitemaps(token: string): readonly string[] {
    return this.#record.access === 'rules' ? this.#robots(token).sitemaps : [];
  }

  /** How it stands, for operators. */
  standing(now: number): NonNullable<HostRow['robots']> {
    const { access, askAt, error, isTrying } = this.#record;
    if (this.#state === 'asking') return { state: 'asking' };
    const reason = error === undefined ? {} : { reason: `${error.kind}: ${error.message}` };
    if (this.#state === 'known' && now < askAt) return { state: access, until: askAt, ...reason };
    if (isTrying && now < askAt) return { state: 'trying', until: Math.round(askAt), ...reason };
    return { state: 'unknown' };
  }

  crawlDelayMs(token: string): number {
    return this.#record.access === 'rules' ? (this.#robots(token).crawlDelayMs ?? 0) : 0;
  }

  /** Returns the record for an answer. `attemptsMax`: failures after which the host counts as
   *  unreachable; `random` from 0 to 1 spreads the attempts. */
  judge(answer: RobotsAnswer, attemptsMax: number, now: number, random: number): RobotsRecord {
    const { access, failures: before, failingSince } = this.#record;
    if ('error' in answer && answer.error.kind === 'proxy') {
      // It is not the host's fault, so nothing is counted.
      const waitMs = backOffMs(0, random, answer.retryAfterMs ?? 0);
      return { ...this.#record, askAt: now + waitMs, isTrying: true };
    }
    const hasCopy = access === 'rules';
    const verdict = robotsVerdict('status' in answer ? answer.status : answer.error.kind, {
      failureCount: Math.max(0, before + 1 - attemptsMax),
      unreachableMs: before > 0 ? now - failingSince : 0,
      hasCopy,
      cacheControl: 'status' in answer ? answer.cacheControl : undefined,
      retryAfterMs: answer.retryAfterMs,
    });
    const askAt = now + verdict.askAgainMs;
    switch (verdict.access) {
      case 'parse':
        return { access: 'rules', askAt, failures: 0, failingSince: 0 };
      case 'allow':
        return { access: 'none', askAt, failures: 0, failingSince: 0 };
      case 'keep':
        return { access: 'rules', askAt, failures: 0, failingSince: 0 };
      case 'disallow': {
        const failures = before + 1;
        const since = before > 0 ? failingSince : now;
        const error = 'status' in answer ? statusError(answer.status) : answer.error;
        const record = { access: 'unreachable', failures, failingSince: since, error } as const;
        const isOver = 'error' in answer && (answer.isFinal || isLasting(answer.error));
        if (isOver || failures >= attemptsMax) return { ...record, askAt };
        const waitMs = backOffMs(before, random, answer.retryAfterMs);
        return { ...record, askAt: now + waitMs, isTrying: true };
      }
      default:
        return verdict.access satisfies never;
    }
  }

  /** An answer was stored, now or before a restart. */
  learn(record: RobotsRecord): void {
    this.#record = record;
    this.edition++;
    this.forgetParsed();
    this.#budget.leave(this);
    this.#task = undefined;
    this.#state = record.isTrying ? 'unknown' : 'known';
  }

  /** The operator wants URLs of this host, so an unreachable one is tried again at once. */
  retry(): void {
    if (this.#record.access !== 'unreachable' || this.#state === 'asking') return;
    this.#record = { ...this.#record, askAt: 0, failures: 0 };
    this.#task = undefined;
    this.#state = 'unknown';
  }

  /** A redirect to the file cannot be followed now: it is not asked for again before `askAt`. */
  putOff(askAt: number): void {
    this.#record = { ...this.#record, askAt, isTrying: true };
  }

  /** There is no room for the parsed file: it is parsed again at its next use. */
  forgetParsed(): void {
    this.#parsed = undefined;
  }

  #robots(token: string): Robots {
    let robots = this.#parsed?.get(token);
    if (robots === undefined) {
      const file = this.#load() ?? new Uint8Array(0);
      robots = parseRobots(file, token);
      this.#parsed ??= new Map();
      this.#parsed.set(token, robots);
      this.#budget.take(this, file.length);
    } else this.#budget.touch(this);
    return robots;
  }

  #make(crawl: number): Task {
    const home: TaskHome = {
      crawl,
      host: this.#host,
      waiting: 1,
      lease: (task) => this.#set('asking', task, 'leased'),
      release: (task) => this.#set('unknown', task, 'waiting'),
      commit: (task) => this.#set('asking', task, 'committing'),
      remove: () => {},
    };
    return {
      kind: kindNumbers.robots,
      level: 0,
      url: this.#url,
      depth: 0,
      priority: 0,
      attempts: this.#record.failures,
      notBefore: 0,
      queue: home,
      // A position in the host's queue that no page has.
      rank: 0xffffffff,
      seq: 2 ** 48 - 1,
      state: 'waiting',
      losses: 0,
      heapIndex: -1,
    } satisfies Task & TaskRecord;
  }

  #set(state: 'unknown' | 'asking', task: Task, taskState: Task['state']): void {
    this.#state = state;
    task.state = taskState;
  }
}

function statusError(status: number): FetchErrorBody {
  return { kind: 'status', message: `robots.txt: ${status}` };
}
