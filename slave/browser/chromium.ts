/**
 * One running Chromium. It serves pages until it is retired, and its whole process group is killed
 * then. Its own traffic is off, or refused: each page has a proxy of its own, and the browser
 * itself one that refuses everything.
 *
 *     serving --200 pages, 600 MB--> retired --last page ends--> ended
 *        +------------------- crash, kill -----------------------^
 */
import type { BrowserLimits, BrowserProgram } from './find.ts';
import { type Launched, launch, type Start } from './launch.ts';
import { killGroup, killProcess, memoryOf } from './process-group.ts';
import type { Tab, TabOptions } from './tab.ts';
import { Tabs } from './tabs.ts';
import { isDone, within } from './within.ts';

const limitsDefault: BrowserLimits = {
  pages: 200,
  memoryBytes: 600 << 20,
  memoryBytesHard: 1_500 << 20,
};
const openMsMax = 30_000;
const closeMsMax = 3_000;
const memoryEveryMs = 500;

export class Chromium {
  readonly #launched: Launched;
  readonly #tabs: Tabs;
  readonly #onEnd: (why: string) => void;
  readonly #limits: BrowserLimits;
  readonly #watch: NodeJS.Timeout;
  #state: 'serving' | 'retired' | 'ended' = 'serving';
  #pages = 0;
  #open = 0;
  #why = 'the browser ended';
  #cleared: Promise<void> | undefined;
  /** Of pages under way: each rejects one when it has ended. */
  readonly #leaves = new Set<(error: Error) => void>();

  /** The proxy of `from` refuses everything. `onEnd`: it ended by itself, or was
   *  killed. `signal`: nobody wants it any more.
   *  @throws Error it does not start, in one line */
  static async start(
    program: BrowserProgram,
    from: Start,
    onEnd: (why: string) => void,
    signal: AbortSignal,
  ): Promise<Chromium> {
    let ended = () => {};
    const end = new Promise<void>((resolve) => {
      ended = resolve;
    });
    const launched = await launch(program, from, () => ended(), signal);
    const started = new Chromium(launched, onEnd, program.settings.limits);
    ended = () => started.#ended();
    void end.then(ended);
    return started;
  }

  private constructor(
    launched: Launched,
    onEnd: (why: string) => void,
    limits: Partial<BrowserLimits> = {},
  ) {
    this.#limits = { ...limitsDefault, ...limits };
    this.#launched = launched;
    this.#tabs = new Tabs(launched);
    this.#onEnd = onEnd;
    this.#watch = setInterval(() => this.#look(), memoryEveryMs);
  }

  get isServing(): boolean {
    return this.#state === 'serving';
  }

  get isEnded(): boolean {
    return this.#state === 'ended';
  }

  /** Why it ended. */
  get why(): string {
    return this.#why;
  }

  /** Runs `use` with a page in a fresh context, which ends with it. @throws Error the browser
   *  ended, or what `use` throws */
  async with<T>(options: TabOptions, use: (tab: Tab) => Promise<T>): Promise<T> {
    this.#pages++;
    this.#open++;
    if (this.#pages >= this.#limits.pages) this.#retire();
    let tab: Tab | undefined;
    try {
      tab = await this.#orEnded(within(this.#tabs.make(options), openMsMax));
      return await this.#orEnded(use(tab));
    } finally {
      const isClosed = tab !== undefined && (await isDone(this.#tabs.close(tab), closeMsMax));
      // Its process may go on for ever.
      if (!isClosed) this.#retire();
      this.#open--;
      if (this.#state === 'retired' && this.#open === 0) void this.end();
    }
  }

  /** Some calls are never answered, so the end of the browser ends the wait for them.
   *  @throws Error the browser ended */
  #orEnded<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#leaves.add(reject);
      if (this.#state === 'ended') reject(new Error(this.#why));
      work.then(resolve, reject).finally(() => this.#leaves.delete(reject));
    });
  }

  /** Ends it with all its processes. Idempotent. */
  async end(): Promise<void> {
    if (this.#state !== 'ended') {
      this.#retire();
      await isDone(this.#launched.devtools.call('Browser.close', {}), closeMsMax);
      this.#kill();
    }
    await this.#cleared;
  }

  /** It starts no more pages. Those that are open may end. */
  giveUp(): void {
    if (this.#state !== 'serving') return;
    this.#retire();
    this.#why = 'the browser starts no more pages';
    this.#onEnd(this.#why);
    if (this.#open === 0) void this.end();
  }

  #retire(): void {
    if (this.#state === 'serving') this.#state = 'retired';
  }

  #look(): void {
    if (this.#open === 0) return;
    const { group } = this.#launched;
    const { memoryBytes, memoryBytesHard } = this.#limits;
    const { bytes, largest } = memoryOf(group);
    if (bytes > memoryBytes) this.#retire();
    if (bytes <= memoryBytesHard) return;
    // One page that has most of it goes alone: the others are innocent.
    if (largest.pid !== group && largest.bytes > memoryBytesHard / 2) {
      killProcess(largest.pid);
      return;
    }
    this.#why = `the browser took more than ${memoryBytesHard >> 20} MB of memory`;
    this.#kill();
  }

  #kill(): void {
    killGroup(this.#launched.group);
    this.#ended();
  }

  #ended(): void {
    if (this.#state === 'ended') return;
    const isMeant = this.#state === 'retired' && this.#open === 0;
    this.#state = 'ended';
    clearInterval(this.#watch);
    for (const leave of this.#leaves) leave(new Error(this.#why));
    this.#leaves.clear();
    this.#launched.devtools.close();
    // Its other processes, where the first one alone has ended.
    this.#cleared = this.#launched.clear();
    if (!isMeant) this.#onEnd(this.#why);
  }
}
