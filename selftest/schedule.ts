/** The faults of a run, one after the other, drawn from its seed: the same seed, the same list. */
import type { NetworkFault, Way } from './proxy.ts';
import { randomOf } from './site.ts';

/** `pick`, from 0 to 1, selects one of the present slaves or connections; times in ms. A killed
 *  master is restarted with a clock shifted by `shiftMs`. */
export type Fault =
  | { readonly kind: 'kill'; readonly who: 'slave'; readonly pick: number }
  | { readonly kind: 'kill'; readonly who: 'master' | 'all'; readonly shiftMs: number }
  /** An orderly end, and a start. */
  | { readonly kind: 'restart'; readonly who: 'slave'; readonly pick: number }
  | { readonly kind: 'restart'; readonly who: 'master' }
  | { readonly kind: 'stop'; readonly who: 'slave'; readonly pick: number; readonly ms: number }
  | { readonly kind: 'stop'; readonly who: 'master'; readonly ms: number }
  | { readonly kind: 'cut'; readonly pick: number; readonly cut: NetworkFault }
  /** The disk has `spareBytes` of room left for `ms`. */
  | { readonly kind: 'full'; readonly spareBytes: number; readonly ms: number };

export type Due = { readonly afterMs: number; readonly fault: Fault };

type ScheduleOptions = {
  readonly seed: number;
  /** Between two faults, on average. */
  readonly everyMs: number;
  /** A stop may last longer than this. */
  readonly leaseMs: number;
  /** Time without receiving after which a session ends. */
  readonly silenceMs: number;
};

/** Frequency of each, of 100. */
const weights = {
  'kill slave': 22,
  'kill master': 8,
  'kill all': 3,
  'restart slave': 6,
  'restart master': 4,
  'stop slave': 10,
  'stop master': 3,
  cut: 41,
  full: 3,
} as const;

/** Large enough to break anything that depends on wall time. */
const shiftMsMax = 48 * 3_600_000;

export function* schedule({ seed, everyMs, leaseMs, silenceMs }: ScheduleOptions): Generator<Due> {
  const random = randomOf(seed);
  const upTo = (max: number) => Math.floor(random() * max);
  const between = (min: number, max: number) => min + upTo(max - min);
  const way = (): Way => (random() < 0.5 ? 'up' : 'down');
  const shiftMs = () => (random() < 0.3 ? between(-shiftMsMax, shiftMsMax) : 0);
  const cut = (): NetworkFault => {
    switch (upTo(8)) {
      case 0:
        return { how: 'drop', isAll: true };
      case 1:
        return { how: 'half-open', way: random() < 0.3 ? 'both' : way(), ms: upTo(2 * silenceMs) };
      case 2:
        return { how: 'slow', bytes: between(1, 400), ms: upTo(2 * silenceMs) };
      case 3:
        return { how: 'late', ms: upTo(silenceMs) };
      case 4:
        return { how: 'shuffle', seed: upTo(2 ** 30), ms: between(200, 2_000) };
      case 5:
        return { how: 'refuse', ms: upTo(1_500) };
      case 6:
        return { how: 'drop', isAll: false };
      default:
        // Most frames are some hundred bytes, so that it ends within one.
        return { how: 'mid-frame', way: way(), bytes: between(1, 3_000) };
    }
  };
  const fault = (): Fault => {
    const name = drawn(random() * 100);
    switch (name) {
      case 'kill slave':
        return { kind: 'kill', who: 'slave', pick: random() };
      case 'kill master':
        return { kind: 'kill', who: 'master', shiftMs: shiftMs() };
      case 'kill all':
        return { kind: 'kill', who: 'all', shiftMs: shiftMs() };
      case 'restart slave':
        return { kind: 'restart', who: 'slave', pick: random() };
      case 'restart master':
        return { kind: 'restart', who: 'master' };
      case 'stop slave':
        return { kind: 'stop', who: 'slave', pick: random(), ms: between(200, 2 * leaseMs) };
      case 'stop master':
        return { kind: 'stop', who: 'master', ms: between(200, 2 * silenceMs) };
      case 'cut':
        return { kind: 'cut', pick: random(), cut: cut() };
      case 'full':
        return { kind: 'full', spareBytes: upTo(1 << 20), ms: between(500, 4_000) };
      default:
        return name satisfies never;
    }
  };
  while (true) {
    // Exponential: some come close together, some far apart.
    const afterMs = Math.min(5 * everyMs, Math.round(-Math.log(1 - random()) * everyMs));
    yield { afterMs, fault: fault() };
  }
}

function drawn(at: number): keyof typeof weights {
  let sum = 0;
  for (const [name, weight] of Object.entries(weights)) {
    sum += weight;
    if (at < sum) return name as keyof typeof weights;
  }
  return 'cut';
}

/** Returns one line that describes the fault. */
export function describe(fault: Fault): string {
  switch (fault.kind) {
    case 'kill':
      if (fault.who === 'slave') return 'kill a slave';
      return `kill ${fault.who}${fault.shiftMs === 0 ? '' : `, clock off by ${Math.round(fault.shiftMs / 1000)} s`}`;
    case 'restart':
      return `restart ${fault.who === 'slave' ? 'a slave' : 'the master'}`;
    case 'stop':
      return `stop ${fault.who} for ${fault.ms} ms`;
    case 'cut':
      return `cut: ${JSON.stringify(fault.cut)}`;
    case 'full':
      return `disk full but for ${fault.spareBytes} bytes, for ${fault.ms} ms`;
    default:
      return fault satisfies never;
  }
}
