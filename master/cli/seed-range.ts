/** Ranges of numbers in the URLs and bodies of seeds: `{1..50}`. Source: docs/crawl-files.md. */
import type { ConfigError } from '../../shared/errors.ts';

/** Makes the error of a fault: the path to it in the crawl file, and why. */
export type Fault = (at: readonly PropertyKey[], why: string) => ConfigError;

const rangesMax = 16;
const range = /\{(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(\d{1,9}))?\}/;

/** `{1..50}`, `{0..3000..30}`, `{001..100}`: the first range of a URL is written out, then the next
 *  one. `hasBraces`: it may have other braces. @throws ConfigError */
export function* rangeOf(
  url: string,
  fault: (why: string) => ConfigError,
  hasBraces = false,
): Generator<string> {
  const found = range.exec(url);
  if (found === null) {
    if (!hasBraces && url.includes('{') && url.includes('..')) {
      throw fault('has a range that is not {FIRST..LAST} or {FIRST..LAST..STEP}');
    }
    yield url;
    return;
  }
  const [whole, first = '', last = '', by = '1'] = found;
  const [from, to, step] = [Number(first), Number(last), Number(by)];
  if (step === 0) throw fault('has a range with step 0');
  // 001 has three digits in each URL.
  const width =
    /^-?0\d/.test(first) || /^-?0\d/.test(last) ? Math.max(first.length, last.length) : 0;
  const sign = from <= to ? 1 : -1;
  for (let at = from; sign * at <= sign * to; at += sign * step) {
    const minus = at < 0 ? '-' : '';
    const text = minus + String(Math.abs(at)).padStart(width - minus.length, '0');
    yield* rangeOf(url.replace(whole, text), fault, hasBraces);
  }
}

/**
 * A value of a body with its ranges written out, the first one slowest: each of its texts may have
 * some. Other braces stay as they are. `numbers`: a text that is one range and nothing else becomes
 * a number. @throws ConfigError there are too many ranges, or one has step 0
 */
export function* rangesIn(
  value: unknown,
  numbers: boolean,
  fault: (why: string) => ConfigError,
): Generator<unknown> {
  const ranges = countIn(value);
  if (ranges > rangesMax) throw fault(`has ${ranges} ranges; at most ${rangesMax}`);
  if (ranges === 0) yield value;
  else if (typeof value === 'string') {
    const isNumber = numbers && value.replace(range, '') === '' && !/[{.]-?0\d/.test(value);
    for (const text of rangeOf(value, fault, true)) yield isNumber ? Number(text) : text;
  } else if (Array.isArray(value)) {
    yield* listsOf(value, numbers, fault);
  } else if (typeof value === 'object' && value !== null) {
    const names = Object.keys(value);
    for (const values of listsOf(Object.values(value), numbers, fault)) {
      yield Object.fromEntries(names.map((name, i) => [name, values[i]]));
    }
  }
}

function* listsOf(
  values: readonly unknown[],
  numbers: boolean,
  fault: (why: string) => ConfigError,
): Generator<unknown[]> {
  const index = values.findIndex((value) => countIn(value) > 0);
  for (const value of rangesIn(values[index], numbers, fault)) {
    const head = [...values.slice(0, index), value];
    const rest = values.slice(index + 1);
    if (countIn(rest) === 0) yield [...head, ...rest];
    else for (const others of listsOf(rest, numbers, fault)) yield [...head, ...others];
  }
}

/** Ranges in the texts of a value. */
function countIn(value: unknown): number {
  if (typeof value === 'string') return value.match(new RegExp(range, 'g'))?.length ?? 0;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, one) => sum + countIn(one), 0);
}
