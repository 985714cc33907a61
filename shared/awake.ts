/**
 * Limits of time that do not count the time in which this process stood still: after SIGSTOP, in a
 * paused VM, in a container without CPU. When it goes on, all its timers are over, and they run
 * before anything is read: an answer that has waited since would be late. Here a standstill counts
 * as 500 ms at most, and a limit that ends with one ends a moment later, when what waited has been
 * read. The clock goes only while a timer of this module runs, so that an idle process is not
 * woken. It errs towards waiting: up to 100 ms longer, and for as long as nothing could be heard.
 */

/** How often the clock is looked at. */
const tickMs = 250;
/** Time that a standstill counts, in ms at most. A machine that is busy is late, too, but seldom by
 *  that much. */
const stepMsMax = 500;
/** After a standstill, until what waited has been read. */
const readMs = 100;

let countedMs = 0;
let lookedAt = performance.now();
let stoodUntil = Number.NEGATIVE_INFINITY;
let timers = 0;
let ticker: NodeJS.Timeout | undefined;

/** Returns the ms in which this process ran, from any beginning: for differences only, and while an
 *  `AwakeTimer` runs. */
export function awakeMs(): number {
  const now = performance.now();
  const stepMs = now - lookedAt;
  lookedAt = now;
  if (stepMs > stepMsMax && ticker !== undefined) stoodUntil = now;
  countedMs += Math.min(stepMs, stepMsMax);
  return countedMs;
}

function tick(): void {
  awakeMs();
  if (timers > 0) return;
  clearInterval(ticker);
  ticker = undefined;
}

/** As `setTimeout`, for limits on what somebody else does. */
export class AwakeTimer {
  readonly #onOver: () => void;
  readonly #endsAt: number;
  #timer: NodeJS.Timeout;
  #state: 'running' | 'reading' | 'over' = 'running';

  constructor(onOver: () => void, ms: number) {
    this.#onOver = onOver;
    this.#endsAt = awakeMs() + ms;
    timers++;
    ticker ??= setInterval(tick, tickMs).unref();
    this.#timer = setTimeout(look, ms, this);
  }

  /** The process need not stay for it. */
  unref(): this {
    this.#timer.unref();
    return this;
  }

  /** Idempotent. */
  clear(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    timers--;
    clearTimeout(this.#timer);
  }

  /** Called when it may be over. */
  look(): void {
    const leftMs = this.#endsAt - awakeMs();
    if (leftMs > 0) this.#wait(leftMs);
    else if (this.#state === 'running' && performance.now() - stoodUntil < readMs) {
      // Once: a process that is always late must come to an end, too.
      this.#state = 'reading';
      this.#wait(readMs);
    } else {
      this.clear();
      this.#onOver();
    }
  }

  #wait(ms: number): void {
    const isRef = this.#timer.hasRef();
    this.#timer = setTimeout(look, Math.ceil(ms), this);
    if (!isRef) this.#timer.unref();
  }
}

/** One for all timers: a closure for each fetch would be garbage. */
function look(timer: AwakeTimer): void {
  timer.look();
}

/** Resolves after `ms` in which this process ran. */
export function awakeSleep(ms: number): Promise<void> {
  return new Promise((resolve) => new AwakeTimer(resolve, ms));
}

/** Returns a function to be called every `everyMs`. It says for how long this process has stood
 *  still since its last call, in ms: 0 if it was not much too late. */
export function standstillsOf(everyMs: number): () => number {
  let before = performance.now();
  return () => {
    const now = performance.now();
    const lateMs = now - before - everyMs;
    before = now;
    return lateMs > stepMsMax ? lateMs : 0;
  };
}
