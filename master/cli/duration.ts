/** Lengths of time as operators write them: `30s`, `15m`, `24h`, `7d`. */
import { everyMsMax } from '../../shared/crawl.ts';

const unitsMs: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Returns it in ms; undefined: it is none, or not from 1 s to 366 days. */
export function durationOf(value: unknown): number | undefined {
  const [, n = '', unit = ''] =
    /^(\d{1,9})(s|m|h|d)$/.exec(typeof value === 'string' ? value : '') ?? [];
  const ms = Number(n) * (unitsMs[unit] ?? 0);
  return n === '' || ms < 1_000 || ms > everyMsMax ? undefined : ms;
}

/** In the largest unit that has no rest: `86400000` is `1d`. */
export function durationText(ms: number): string {
  const unit = ['d', 'h', 'm'].find((one) => ms % (unitsMs[one] ?? 1) === 0) ?? 's';
  return `${ms / (unitsMs[unit] ?? 1)}${unit}`;
}
