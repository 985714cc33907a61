/**
 * The options of `set`: those of a crawl, each with a `--no-` that sets it back to its default. The
 * master decides which of them may change; those that may not are accepted here, so that it can say
 * why. Also the text of a change.
 */
import { isDeepStrictEqual } from 'node:util';
import { flag } from '../../shared/cli.ts';
import { isFixedField } from '../../shared/crawl.ts';
import type { ChangedField } from '../../shared/protocol.ts';
import { type Command, givenOptions, type Values } from './asks/asking.ts';
import { makeSpec, type SpecPart, specFields, specFlags, specPart } from './crawl-options.ts';
import { durationText } from './duration.ts';

type Flags = ReturnType<typeof specFlags>;

/** Flags of the options that cannot change: help does not show them. */
function fixedFlags(): readonly string[] {
  return specFields().flatMap(({ name, isFetch, option: { long } }) => {
    return long !== undefined && isFixedField(isFetch ? `fetch.${name}` : name) ? [long] : [];
  });
}

export function setFlags(): Flags {
  const fixed = fixedFlags();
  return specFlags().flatMap((option) => {
    const { long = '' } = option;
    if (fixed.includes(long)) option.hideHelp();
    const isField = long !== '--contact' && long !== '--cookie-file';
    return isField ? [option, flag(`--no-${long.slice(2)}`, 'the default').hideHelp()] : [option];
  });
}

/** Returns the part of a spec that was given on this command line, null for what is to have its
 *  default; undefined: nothing was given. @throws ConfigError a value is wrong */
export function setPart(command: Command): SpecPart | undefined {
  const given = Object.entries(givenOptions(command));
  const values = Object.fromEntries(given.filter(([, value]) => value !== false));
  makeSpec(values);
  const part: Values = specPart(values);
  const cleared = new Set(given.filter(([, value]) => value === false).map(([name]) => name));
  const fetch: Values = {};
  for (const { name, isFetch, option } of specFields()) {
    if (cleared.has(option.attributeName())) (isFetch ? fetch : part)[name] = null;
  }
  if (cleared.has('userAgent')) fetch['otherUserAgents'] = null;
  if (Object.keys(fetch).length > 0) part['fetch'] = { ...(part['fetch'] as Values), ...fetch };
  return Object.keys(part).length > 0 ? part : undefined;
}

/** Returns which of these flags `set` can change, and which it cannot. */
export function sortedFlags(flags: readonly string[]): { can: string[]; cannot: string[] } {
  const fixed = fixedFlags();
  // Rules and a login are keys of a crawl file, and have no flag.
  const isFixed = (name: string) => fixed.includes(name) || !name.startsWith('--');
  return { can: flags.filter((name) => !isFixed(name)), cannot: flags.filter(isFixed) };
}

/** `--max-pages 10000 (was 100)` */
export function changeText({ field, from, to }: ChangedField): string {
  const name = field.replace('fetch.', '');
  const flagOf = specFields().find((one) => one.name === name)?.option.long;
  const text = (value: unknown, other: unknown) =>
    name === 'everyMs' && typeof value === 'number' ? durationText(value) : valueText(value, other);
  const long = flagOf ?? (name === 'otherUserAgents' ? 'further --user-agent' : name);
  if (isDeepStrictEqual(from, to)) return `${long} ${valueText(to)} (with other values)`;
  return `${long} ${text(to, from)} (was ${text(from, to)})`;
}

/** `other`: of a map, only what differs from it. */
function valueText(value: unknown, other?: unknown): string {
  if (value === undefined) return 'the default';
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ');
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  if (typeof value !== 'object' || value === null) return String(value);
  const before = (other ?? {}) as Values;
  const rules = Object.entries(value).filter(([rule, limit]) => before[rule] !== limit);
  return rules.map(([rule, limit]) => `${rule}=${limit === 0 ? 'off' : limit}`).join(',');
}
