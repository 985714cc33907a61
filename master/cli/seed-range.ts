/** Ranges of numbers in the URLs of seeds: `{1..50}`. Source: docs/crawl-files.md. */
import type { ConfigError } from '../../shared/errors.ts';

/** Makes the error of a fault: the path to it in the crawl file, and why. */
export type Fault = (at: readonly PropertyKey[], why: string) => ConfigError;

/** `{1..50}`, `{0..3000..30}`, `{001..100}`: the first range of a URL is written out, then the next
 *  one. */
export function* rangeOf(url: string, fault: (why: string) => ConfigError): Generator<string> {
  const found = /\{(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(\d{1,9}))?\}/.exec(url);
  if (found === null) {
    if (url.includes('{') && url.includes('..')) {
      throw fault('has a range that is not {FIRST..LAST} or {FIRST..LAST..STEP}');
    }
    yield url;
    return;
  }
  const [range, first = '', last = '', by = '1'] = found;
  const [from, to, step] = [Number(first), Number(last), Number(by)];
  if (step === 0) throw fault('has a range with step 0');
  // 001 has three digits in each URL.
  const width =
    /^-?0\d/.test(first) || /^-?0\d/.test(last) ? Math.max(first.length, last.length) : 0;
  const sign = from <= to ? 1 : -1;
  for (let at = from; sign * at <= sign * to; at += sign * step) {
    const text = String(at).padStart(width, '0');
    yield* rangeOf(url.replace(range, text), fault);
  }
}
