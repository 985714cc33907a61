/**
 * The rows that a crawl's rules made of one page, as a slave reports them: lists instead of maps,
 * since a page may have thousands of rows. Source: PROTOCOL.md [T-81].
 */
import { limits } from './protocol.ts';
import type { Json, RuleCounts, Values } from './rule-results.ts';

/** In the order in which they are sent and kept. */
export const countNames = [
  'pages',
  'matched',
  'empty',
  'wrong',
  'failed',
  'rows',
  'rejected',
] as const satisfies readonly (keyof RuleCounts)[];

export type PageItems = {
  rows: [rule: string, values: Values][];
  /** Rows without something that is required. */
  rejected: [rule: string, values: Values, why: string][];
  /** Rules that could not be evaluated on the page. */
  failures: [rule: string, message: string][];
  /** Of a rule (`book`) or a field (`book.price`): numbers in the order of `countNames`. */
  counts: { [name: string]: number[] };
};

/** Of a rule, and of a field. */
const rulePattern = /^[A-Za-z_][\w-]{0,63}$/;
const countPattern = /^[A-Za-z_][\w-]{0,63}(?:\.[A-Za-z_][\w-]{0,63})?$/;
export const rowLevelsMax = 48;

/** A tight check instead of a schema: there may be thousands of rows. */
export function isPageItems(value: unknown): value is PageItems {
  if (!isMap(value) || Object.keys(value).length !== 4) return false;
  const { rows, rejected, failures, counts } = value;
  if (!Array.isArray(rows) || !Array.isArray(rejected) || !Array.isArray(failures)) return false;
  if (rows.length + rejected.length > limits.itemRowsMax) return false;
  if (failures.length > limits.ruleCountsMax) return false;
  for (const row of rows) if (!isRow(row, 2)) return false;
  for (const row of rejected) if (!isRow(row, 3) || !isShort(row[2])) return false;
  for (const one of failures) {
    if (!Array.isArray(one) || one.length !== 2) return false;
    if (!isRuleName(one[0]) || !isShort(one[1])) return false;
  }
  return isMap(counts) && areCounts(counts);
}

function isRow(row: unknown, length: number): row is unknown[] {
  if (!Array.isArray(row) || row.length !== length) return false;
  return isRuleName(row[0]) && isMap(row[1]) && isJson(row[1], rowLevelsMax);
}

function areCounts(counts: Record<string, unknown>): boolean {
  const entries = Object.entries(counts);
  if (entries.length > limits.ruleCountsMax) return false;
  return entries.every(
    ([name, numbers]) =>
      isName(name, countPattern) &&
      Array.isArray(numbers) &&
      numbers.length === countNames.length &&
      numbers.every((count) => Number.isInteger(count) && count >= 0 && count <= 0xffffffff),
  );
}

export function isRuleName(name: unknown): boolean {
  return isName(name, rulePattern);
}

function isName(name: unknown, pattern: RegExp): boolean {
  return typeof name === 'string' && name !== '__proto__' && pattern.test(name);
}

function isShort(text: unknown): boolean {
  return typeof text === 'string' && text.length <= limits.whyChars;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.getPrototypeOf(value) === Object.prototype
  );
}

/** No bytes, which JSON cannot write. A number that JSON does not have becomes null there. */
function isJson(value: unknown, levels: number): value is Json {
  if (value === null || typeof value === 'string') return true;
  if (typeof value === 'number' || typeof value === 'boolean') return true;
  if (typeof value !== 'object' || levels === 0) return false;
  if (Array.isArray(value)) return value.every((one) => isJson(one, levels - 1));
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  for (const key in value) {
    if (!isJson((value as Record<string, unknown>)[key], levels - 1)) return false;
  }
  return true;
}
