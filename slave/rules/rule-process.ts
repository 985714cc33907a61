/**
 * The child process in which a slave has rules evaluated. A page that takes longer than its limit,
 * or more memory, costs its child: it is killed and the next one started, and the page is a
 * failure. A worker thread would not do: `terminate` does not end a running `JSON.parse`, and its
 * limits of memory abort the whole process.
 *
 *     none --first page--> starting --ready--> idle --page--> busy --done--> idle
 *                             |                 |               |
 *                             +-------- ended, killed ----------+--> starting, while pages wait
 *
 * Pages are evaluated one after the other. When one takes long, or much memory, a spare child is
 * started, so that the page after a kill does not wait for one: most slaves never need it. Source:
 * docs/rules.md, "Limits".
 */
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { AwakeTimer } from '../../shared/awake.ts';
import type { FollowRule } from '../../shared/follow.ts';
import { hasArticle, type ItemRules } from '../../shared/items.ts';
import type {
  CrawlRulesGiven,
  PageInput,
  RuleOutcome,
  RuleProblem,
} from '../../shared/rule-results.ts';
import { startProcess } from '../../shared/start-process.ts';
import { type Lacks, lackOf, lackRestMs } from '../lack.ts';
import { findArticlePackages } from './article-packages.ts';
import type { ArticlePackages, FromChild, ToChild } from './messages.ts';
import { ProcessorWaits } from './processor-waits.ts';
import { ruleProgram } from './rule-program.ts';

type RuleProcessOptions = {
  /** Limit of one page; default: 5 s. */
  readonly timeMs?: number;
  /** Resident memory of the child; default: 512 MB. */
  readonly memoryBytes?: number;
  readonly onKilled?: (why: string) => void;
  /** File of a page function, absolute; default: none. */
  readonly page?: string | undefined;
  /** Pages wait for a child for which this machine lacks something; default: they fail. */
  readonly lacks?: Lacks;
};

type Job = {
  readonly message: Exclude<ToChild, { do: 'forget' }>;
  /** A child ended under it, for no fault of the page that is known. */
  wasLost?: boolean;
  /** When a child began it. */
  sentAt?: number;
  /** Undefined: its child has ended, and the reason is `why`. */
  readonly settle: (reply: FromChild | undefined, why: string) => void;
};

const timeMsDefault = 5_000;
const memoryBytesDefault = 512 << 20;
const lookEveryMs = 50;
/** To start, and to load libxml2: also on a machine that has no time. */
const startMsMax = 15_000;
/** A shorter wait for a processor gives a page no more time. All its waits give it so many times
 *  its limit at most. */
const waitMsMin = 20;
const waitsMax = 9;
/** The child may have to be killed: time of a page, and part of its memory. Longer than a usual
 *  page takes, and shorter than the limits by the start of a child. */
const spareAfterMs = 250;
const spareMemoryPart = 0.5;
/** Starts that fail one after the other. */
const startsMax = 3;
const nothing = { bytes: 0, isStopped: false };

export class RuleProcess {
  readonly #options: RuleProcessOptions;
  readonly #timeMs: number;
  readonly #memoryBytes: number;
  readonly #jobs: Job[] = [];
  /** The rules that a new child must know. */
  readonly #sets = new Map<number, CrawlRulesGiven & { packages?: ArticlePackages }>();
  #child: ChildProcess | undefined;
  /** The next one: to start it takes longer than most pages. */
  #spare: { readonly child: ChildProcess; isReady: boolean } | undefined;
  #state: 'none' | 'starting' | 'idle' | 'busy' | 'closed' = 'none';
  #startTimer: AwakeTimer | undefined;
  #pageTimer: AwakeTimer | undefined;
  #lookTimer: NodeJS.Timeout | undefined;
  /** For so long the child was stopped in the time of its page. */
  #stoppedMs = 0;
  #waits = new ProcessorWaits(undefined);
  #failedStarts = 0;
  #nextSet = 1;
  #nextId = 1;

  constructor(options: RuleProcessOptions = {}) {
    this.#options = options;
    this.#timeMs = options.timeMs ?? timeMsDefault;
    this.#memoryBytes = options.memoryBytes ?? memoryBytesDefault;
  }

  /** Loads the page function. Returns what is wrong with it. */
  async load(): Promise<string | undefined> {
    const { page: path } = this.#options;
    if (path === undefined) return undefined;
    const reply = await this.#ask({ do: 'load', id: this.#nextId++, path });
    if ('failed' in reply) return reply.failed;
    return reply.is === 'failed' ? reply.message : undefined;
  }

  /** Learns the rules of a crawl. Returns their number, or what is wrong with them. */
  async learn(
    items: ItemRules,
    follow?: readonly FollowRule[],
  ): Promise<number | readonly RuleProblem[]> {
    const set = this.#nextSet++;
    const given = { items, follow, ...(hasArticle(items) && { packages: findArticlePackages() }) };
    const reply = await this.#ask({ do: 'compile', id: this.#nextId++, set, ...given });
    if ('failed' in reply) return [{ path: [], message: reply.failed }];
    if (reply.is === 'compiled' && reply.problems.length > 0) return reply.problems;
    this.#sets.set(set, given);
    return set;
  }

  /** The rules are no longer needed. */
  forget(set: number): void {
    if (!this.#sets.delete(set) || this.#child === undefined) return;
    this.#child.send({ do: 'forget', set } satisfies ToChild);
  }

  /** Evaluates the rules `set` (0: none) on a page, and calls the page function, if it is not
   *  `isBare`. `onTook` gets the time that it took. Never rejects. */
  async evaluate(
    set: number,
    page: PageInput,
    jsonBytesMax: number,
    onTook: (ms: number) => void = () => {},
    isBare = false,
  ): Promise<RuleOutcome> {
    const message = { do: 'page', id: this.#nextId++, set, page, jsonBytesMax, isBare } as const;
    const reply = await this.#ask(message, onTook);
    if ('failed' in reply) return reply;
    if (reply.is === 'done') return { result: reply.result };
    return { failed: reply.is === 'failed' ? reply.message : 'an odd answer' };
  }

  /** Ends the child; pages that wait are failures. Idempotent. */
  async close(): Promise<void> {
    const children = [this.#child, this.#spare?.child];
    this.#end();
    this.#spare = undefined;
    this.#state = 'closed';
    for (const job of this.#jobs.splice(0)) job.settle(undefined, 'the slave leaves');
    await Promise.all(children.map((child) => child && killed(child)));
  }

  #ask(
    message: Job['message'],
    onTook: (ms: number) => void = () => {},
  ): Promise<FromChild | { failed: string }> {
    return new Promise((resolve) => {
      const job: Job = {
        message,
        settle: (reply, why) => {
          if (job.sentAt !== undefined) onTook(performance.now() - job.sentAt);
          resolve(reply ?? { failed: why });
        },
      };
      this.#jobs.push(job);
      this.#next();
    });
  }

  #next(): void {
    const [job] = this.#jobs;
    if (this.#state === 'closed') {
      for (const left of this.#jobs.splice(0)) left.settle(undefined, 'the slave leaves');
      return;
    }
    if (job === undefined) return;
    if (this.#state === 'none') this.#start();
    else if (this.#state === 'idle') this.#send(job);
  }

  /** Takes the spare child, or starts one. */
  #start(): void {
    this.#state = 'starting';
    const { child, isReady } = this.#spare ?? { child: this.#spawn(), isReady: false };
    this.#spare = undefined;
    this.#child = child;
    this.#startTimer = new AwakeTimer(
      () => this.#kill(`it has not begun within ${startMsMax / 1000} s`),
      startMsMax,
    );
    if (isReady) this.#ready(child);
  }

  #spawn(): ChildProcess {
    const path = 'path' in ruleProgram ? ruleProgram.path : undefined;
    const says = this.#options.page === undefined ? 'ignore' : 2;
    const child = startProcess(
      process.execPath,
      [
        // The memory of strings and trees; the limit of all memory is looked at from here.
        `--max-old-space-size=${Math.ceil(this.#memoryBytes / 2 ** 20)}`,
        ...(path === undefined ? ['--input-type=module', '-'] : [path]),
      ],
      {
        serialization: 'advanced',
        // A page function may say something to its owner.
        stdio: ['pipe', says, says, 'ipc'],
        // Ctrl-C is for the slave, which then finishes its pages.
        detached: true,
      },
    );
    child.stdin?.on('error', () => {});
    child.stdin?.end('packed' in ruleProgram ? unpacked(ruleProgram.packed) : '');
    child.on('message', (message: FromChild) => this.#heard(child, message));
    child.on('error', (error: NodeJS.ErrnoException) => {
      // Of a message that cannot be sent: its end follows, with a better reason.
      if (child.pid !== undefined) return;
      const { lacks } = this.#options;
      const lack = lackOf(error.code ?? '');
      if (lacks === undefined || lack === undefined) {
        this.#ended(child, error.message);
        return;
      }
      lacks.told(lack);
      this.#startLater(child);
    });
    child.on('exit', (code, signal) =>
      this.#ended(child, `its process ended (${signal ?? `exit code ${code}`})`),
    );
    return child;
  }

  /** No child can be made now. The pages wait: neither they nor their rules are at fault. */
  #startLater(child: ChildProcess): void {
    if (child === this.#spare?.child) this.#spare = undefined;
    if (child !== this.#child) return;
    this.#end();
    this.#startSoon();
  }

  #startSoon(): void {
    this.#state = 'starting';
    this.#startTimer = new AwakeTimer(() => this.#start(), lackRestMs);
  }

  /** A new child learns the rules that the last one knew. */
  #ready(child: ChildProcess): void {
    const { page: path } = this.#options;
    if (path !== undefined) child.send({ do: 'load', id: 0, path } satisfies ToChild);
    for (const [set, rules] of this.#sets) {
      child.send({ do: 'compile', id: 0, set, ...rules } satisfies ToChild);
    }
    this.#failedStarts = 0;
    this.#startTimer?.clear();
    this.#state = 'idle';
    this.#next();
  }

  #send(job: Job): void {
    this.#state = 'busy';
    job.sentAt = performance.now();
    this.#child?.send(job.message);
    const limitMs = job.message.do === 'page' ? this.#timeMs : startMsMax;
    const why = `took longer than ${limitMs / 1000} s`;
    let leftMs = waitsMax * limitMs;
    let givenMs = limitMs;
    const over = () => {
      const waitedMs = Math.min(this.#waits.next(), givenMs, leftMs);
      leftMs -= waitedMs;
      givenMs = this.#stoppedMs + waitedMs;
      this.#stoppedMs = 0;
      if (givenMs < waitMsMin) this.#kill(why);
      else this.#pageTimer = new AwakeTimer(over, givenMs);
    };
    this.#waits = new ProcessorWaits(this.#child?.pid);
    this.#stoppedMs = 0;
    this.#pageTimer = new AwakeTimer(over, limitMs);
    this.#lookTimer = setInterval(() => this.#look(), lookEveryMs);
  }

  #heard(child: ChildProcess, message: FromChild): void {
    if (child === this.#spare?.child && message.is === 'ready') this.#spare.isReady = true;
    if (child !== this.#child) return;
    if (message.is === 'ready') {
      this.#ready(child);
      return;
    }
    // Nobody waits for the answers about rules that a new child learned again.
    const [job] = this.#jobs;
    if (this.#state !== 'busy' || job?.message.id !== message.id) return;
    this.#rest();
    this.#jobs.shift();
    this.#state = 'idle';
    job.settle(message, '');
    this.#next();
  }

  #look(): void {
    const { bytes, isStopped } = this.#status();
    if (isStopped) this.#stoppedMs += lookEveryMs;
    this.#waits.begin();
    if (bytes > this.#memoryBytes) {
      this.#kill(`took more than ${this.#memoryBytes >> 20} MB of memory`);
      return;
    }
    const tookMs = performance.now() - (this.#jobs[0]?.sentAt ?? 0);
    if (tookMs < spareAfterMs && bytes < this.#memoryBytes * spareMemoryPart) return;
    this.#spare ??= { child: this.#spawn(), isReady: false };
  }

  /** Only Linux says how much memory another process has, and whether it is stopped; elsewhere the
   *  heap has a limit. */
  #status(): { bytes: number; isStopped: boolean } {
    const pid = this.#child?.pid;
    if (pid === undefined) return nothing;
    let status: string;
    try {
      status = readFileSync(`/proc/${pid}/status`, 'latin1');
    } catch {
      return nothing;
    }
    const [, kilobytes = '0'] = /^VmRSS:\s*(\d+) kB/m.exec(status) ?? [];
    return { bytes: Number(kilobytes) * 1024, isStopped: /^State:\s*[Tt]/m.test(status) };
  }

  #kill(why: string): void {
    const child = this.#child;
    if (child === undefined) return;
    const isPage = this.#state === 'busy' && this.#jobs[0]?.message.do === 'page';
    if (isPage) this.#options.onKilled?.(why);
    child.kill('SIGKILL');
    // The next one starts while this one ends.
    this.#ended(child, why, true);
  }

  /** `isKilled`: by us, for the reason `why`; else it has ended by itself. */
  #ended(child: ChildProcess, why: string, isKilled = false): void {
    if (child === this.#spare?.child) this.#spare = undefined;
    if (child !== this.#child) return;
    const before = this.#state;
    this.#end();
    if (before === 'busy') this.#settleLost(why, isKilled);
    else if (before === 'starting' && ++this.#failedStarts >= startsMax) {
      this.#failedStarts = 0;
      const reason = `the child for rules does not start: ${why}`;
      const { lacks } = this.#options;
      if (lacks !== undefined) {
        // It had no thread, or no memory. It has heard of no page, so none is at fault.
        lacks.told(reason);
        this.#startSoon();
        return;
      }
      this.#jobs.shift()?.settle(undefined, reason);
    }
    // A page that cost its child is often followed by the next one of its kind.
    const isWanted = this.#sets.size > 0 || this.#options.page !== undefined;
    if (isWanted || this.#jobs.length > 0) this.#start();
  }

  /** The job under which the child has ended fails if it is at fault; else it has one more try. */
  #settleLost(why: string, isKilled: boolean): void {
    const [job] = this.#jobs;
    if (job === undefined) return;
    const isHeapFull = !isKilled && isMemory(why);
    if (!isKilled && !isHeapFull && job.wasLost !== true) {
      job.wasLost = true;
      return;
    }
    this.#jobs.shift();
    job.settle(undefined, isHeapFull ? 'took more memory than it may have' : why);
  }

  #end(): void {
    this.#rest();
    this.#child = undefined;
    this.#state = 'none';
  }

  #rest(): void {
    this.#startTimer?.clear();
    this.#pageTimer?.clear();
    clearInterval(this.#lookTimer);
  }
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

/** V8 aborts a process whose heap is full. */
function isMemory(why: string): boolean {
  return /SIGABRT|SIGTRAP|\b13[34]\b/.test(why);
}

let code: Buffer | undefined;
function unpacked(packed: string): Buffer {
  code ??= brotliDecompressSync(Buffer.from(packed, 'base64'));
  return code;
}
