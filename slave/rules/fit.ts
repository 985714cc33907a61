/**
 * The rows that rules made of a page, as a report has them. All of it must fit into one: a rule
 * with more than that is a failure, and none of its rows count.
 */
import type { FollowedLinks } from '../../shared/follow.ts';
import { countNames, type PageItems } from '../../shared/page-items.ts';
import { limits } from '../../shared/protocol.ts';
import type { Json, RuleCounts, RuleResult, Values } from '../../shared/rule-results.ts';

/** The result of the rules for a page: a part of its report, and further links, absolute. */
export type Evaluated = {
  readonly items: PageItems;
  readonly links: readonly string[];
  /** Links that are followed in place of those of the page: see `RuleResult`. */
  readonly follow?: readonly FollowedLinks[];
};

/** Of all rules of a page, below the limits of a report. */
const bytesMax = limits.itemsBytesMax - (1 << 20);
const valuesMax = limits.messageValuesMax / 2;
const levelsMax = 40;

type Size = { bytes: number; values: number };
type Room = Size & { rows: number };

export function fitted({ rows, rejected, failures, counts }: RuleResult): PageItems {
  const items: PageItems = { rows: [], rejected: [], failures: [], counts: {} };
  const room: Room = { bytes: bytesMax, values: valuesMax, rows: limits.itemRowsMax };
  for (const { rule, message } of failures) items.failures.push([rule, short(message)]);
  const rules = new Set([...rows, ...rejected].map(({ rule }) => rule));
  const faults = new Map<string, string>();
  for (const rule of rules) {
    const kept = rows.filter((row) => row.rule === rule);
    const left = rejected.filter((row) => row.rule === rule);
    const fault = faultOf([...kept, ...left], room);
    if (fault === undefined) {
      for (const { values } of kept) items.rows.push([rule, values]);
      for (const { values, why } of left) items.rejected.push([rule, values, short(why)]);
    } else {
      faults.set(rule, fault);
      items.failures.push([rule, fault]);
    }
  }
  for (const [name, count] of Object.entries(counts)) {
    // The page function may have failed under that name before.
    const ifFailed = { ...failed, failed: count.failed + 1 };
    items.counts[name] = numbersOf(faults.has(name) ? ifFailed : count);
  }
  return items;
}

/** Of a page on which these rules could not be evaluated at all. */
export function failedItems(rules: readonly string[], message: string): PageItems {
  return {
    rows: [],
    rejected: [],
    failures: rules.map((rule) => [rule, short(message)]),
    counts: Object.fromEntries(rules.map((rule) => [rule, numbersOf(failed)])),
  };
}

const failed: RuleCounts = {
  pages: 1,
  matched: 0,
  empty: 0,
  wrong: 0,
  failed: 1,
  rows: 0,
  rejected: 0,
};

function numbersOf(counts: RuleCounts): number[] {
  return countNames.map((name) => counts[name]);
}

/** Takes the room that the rows of a rule need. Returns why they have none. */
function faultOf(rows: readonly { readonly values: Values }[], room: Room): string | undefined {
  const size: Size = { bytes: 0, values: 0 };
  if (rows.length > room.rows) {
    return `finds ${rows.length} rows; ${limits.itemRowsMax} are allowed on one page`;
  }
  for (const { values } of rows) {
    if (!measure(values, size, levelsMax)) return `has a value more than ${levelsMax} levels deep`;
  }
  if (size.bytes > room.bytes || size.values > room.values) {
    return `its rows take ${size.bytes} bytes; ${bytesMax} are allowed on one page`;
  }
  room.bytes -= size.bytes;
  room.values -= size.values;
  room.rows -= rows.length;
  return undefined;
}

/** Adds what a value takes in msgpack, at most. False: it is nested too deep. */
function measure(value: Json, size: Size, levels: number): boolean {
  size.values++;
  if (typeof value === 'string') size.bytes += Buffer.byteLength(value) + 5;
  else if (typeof value !== 'object' || value === null) size.bytes += 9;
  else if (levels === 0) return false;
  else {
    size.bytes += 5;
    if (Array.isArray(value)) return value.every((one) => measure(one, size, levels - 1));
    for (const [key, one] of Object.entries(value)) {
      size.bytes += Buffer.byteLength(key) + 5;
      size.values++;
      if (!measure(one, size, levels - 1)) return false;
    }
  }
  return true;
}

function short(text: string): string {
  return text.slice(0, limits.whyChars);
}
