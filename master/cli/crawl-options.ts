/**
 * The options of a crawl on the master's command line: `node master.js`, `add` and `recrawl` have
 * them. They are the fields of its spec that have a flag. Here are the parsers of values with a
 * syntax of their own, and the spec that the values make; also the parsers of its name and seeds.
 */
import { isDeepStrictEqual } from 'node:util';
import { InvalidArgumentError, type Option } from 'commander';
import { isAddressRange } from '../../shared/address.ts';
import {
  checked,
  type Fields,
  fieldFlag,
  flag,
  listed,
  type Parsers,
  several,
} from '../../shared/cli.ts';
import {
  type CrawlSpec,
  crawlNameSchema,
  crawlSpecSchema,
  fetchSpecSchema,
  lazyAttributes,
  obeyable,
  trapLimitsSchema,
  trapRules,
  withDigests,
} from '../../shared/crawl.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { rarely } from '../../shared/flags.ts';
import { downloadFrom } from '../../shared/images.ts';
import type { ItemRules } from '../../shared/items.ts';
import { withLinkRule } from '../../shared/link-rule.ts';
import { misfitOf, singleOf } from '../../shared/output-fit.ts';
import { namedOutputs, type Output, outputOf } from '../../shared/outputs.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { refusePatterns } from '../frontier/crawl/patterns.ts';
import { cookieFile, cookiePairs } from './cookies.ts';
import { durationOf } from './duration.ts';

type Values = Record<string, unknown>;
/** Some fields of a CrawlSpec, unchecked. */
export type SpecPart = Record<string, unknown>;

const fetchFields = fetchSpecSchema.shape;

/** The parsers of fields whose syntax does not follow from their schema. */
const parsers: Parsers = {
  traps: trapLimits,
  sitemapSinceMs: moment,
  obey: directives,
  images: checked(fetchFields.images, imageClasses),
  lazyAttributes: checked(fetchFields.lazyAttributes, lazyNames),
  userAgent: checked(fetchFields.otherUserAgents, userAgents),
  headers: checked(fetchFields.headers, headers),
  cookies: checked(fetchFields.cookies, cookiePairs),
  allowPrivate: addressRanges,
  render: checked(fetchFields.render, (text) => text),
  outputs: checked(crawlSpecSchema.shape.outputs, outputs),
  everyMs: duration,
  download: checked(fetchFields.download, downloadOf),
};

/** A field of the spec, or of its part for slaves, with its flag. */
type Field = { readonly name: string; readonly isFetch: boolean; readonly option: Option };

/** In the order of the schemas. */
export function specFields(shape: Fields = crawlSpecSchema.shape, isFetch = false): Field[] {
  return Object.entries(shape).flatMap(([name, field]) => {
    if (name === 'fetch') return specFields(fetchFields, true);
    const option = fieldFlag(field, parsers[name]);
    return option === undefined ? [] : [{ name, isFetch, option }];
  });
}

let known: readonly Field[] | undefined;
/** To look at: a command gets flags of its own, which it may change. */
function knownFields(): readonly Field[] {
  known ??= specFields();
  return known;
}

export function specFlags(): Option[] {
  return specFields().flatMap(({ name, option }) => {
    if (name === 'userAgent') return [option, contactFlag()];
    return name === 'cookies' ? [option, cookieFileFlag()] : [option];
  });
}

/** The file is not a field: its cookies are. */
function cookieFileFlag(): Option {
  return flag(
    '--cookie-file <file>',
    'file of cookies in the Netscape format (cookies.txt), each for its own domain; default: none',
  ).argParser(checked(fetchFields.cookies, (path) => cookieFile(path)));
}

/** The contact is not a field: it becomes a part of each user agent. */
function contactFlag(): Option {
  return flag(
    '--contact <url-or-mail>',
    'URL or mail address added to the user agent, so that site owners can reach you; default: none',
  ).argParser(contact);
}

/** Returns the part of a spec that these values make. Values that are not given are left out. */
export function specPart(values: Values): SpecPart {
  const part: Values = {};
  const fetch: Values = {};
  for (const { name, isFetch, option } of knownFields()) {
    const value = values[option.attributeName()];
    if (value !== undefined) (isFetch ? fetch : part)[name] = value;
  }
  // Of a crawl file: they have no flag.
  for (const name of ['items', 'follow', 'login']) {
    if (values[name] !== undefined) fetch[name] = values[name];
  }
  Object.assign(fetch, agents(values));
  const { cookie, cookieFile: fromFile } = values;
  const cookies = [cookie, fromFile].flatMap((some) => (Array.isArray(some) ? some : []));
  if (cookies.length > 0) fetch['cookies'] = cookies;
  return Object.keys(fetch).length > 0 ? { ...part, fetch } : part;
}

/** The user agents, each followed by the contact. */
function agents({ userAgent, contact }: Values): Values {
  if (userAgent === undefined && contact === undefined) return {};
  const own = fetchSpecSchema.shape.userAgent.parse(undefined);
  const given = Array.isArray(userAgent) ? userAgent.map(String) : [own];
  const [first = own, ...others] = given.map((agent) =>
    contact === undefined ? agent : `${agent} (+${contact})`,
  );
  return { userAgent: first, otherUserAgents: others };
}

/** The whole spec of a crawl from the values of `specFlags`. `rules`: those that its outputs are
 *  judged by, where the values do not have them. @throws ConfigError */
export function makeSpec(values: Values, rules?: ItemRules): CrawlSpec {
  const parsed = crawlSpecSchema.safeParse(specPart(values), rarely);
  if (parsed.success) {
    const { outputs, ...spec } = withDigests(withPatterns(parsed.data));
    const { download, items = rules } = spec.fetch;
    if (outputs === undefined) return spec;
    // `set` and `recrawl` do not know the rules: the master does.
    const isKnown = items !== undefined;
    const misfit = isKnown ? misfitOf(outputs, items, download !== undefined) : undefined;
    const single = spec.everyMs === undefined ? undefined : singleOf(outputs);
    const why = misfit?.why ?? single?.why;
    if (why !== undefined) throw new ConfigError(`--output: ${why}`);
    const named = namedOutputs(outputs, [], Object.keys(items ?? {}).length > 0);
    return withLinkRule({ ...spec, outputs: named });
  }
  const issue = parsed.error.issues[0];
  throw new ConfigError(`${longFlag(issue?.path ?? [])}: ${issue?.message}`);
}

/** The flags among those that were given, by their attributes, whose values are not those of a
 *  crawl that is there already. */
export function otherFlags(kept: CrawlSpec, spec: CrawlSpec, given: ReadonlySet<string>): string[] {
  const flags = specFlags().filter((option) => given.has(option.attributeName()));
  const agentsOf = ({ fetch }: CrawlSpec) => [fetch.userAgent, ...fetch.otherUserAgents];
  const isOther = (option: Option): boolean => {
    const field = knownFields().find((one) => one.option.long === option.long);
    // The contact, too, becomes a part of each user agent.
    if (field === undefined || field.name === 'userAgent') {
      return !isDeepStrictEqual(agentsOf(kept), agentsOf(spec));
    }
    const valueIn = (of: CrawlSpec) => ((field.isFetch ? of.fetch : of) as Values)[field.name];
    return !isDeepStrictEqual(valueIn(kept), valueIn(spec));
  };
  const rules = (['items', 'follow', 'login'] as const).filter(
    (name) => given.has(name) && !isDeepStrictEqual(kept.fetch[name], spec.fetch[name]),
  );
  return [...flags.filter(isOther).map(({ long }) => long ?? ''), ...rules];
}

/** Refuses text that is not a pattern. Only the master knows whether the crawl has it already. */
function withPatterns(spec: CrawlSpec): CrawlSpec {
  try {
    refusePatterns(spec, true);
  } catch (error) {
    throw new ConfigError(messageOf(error), error);
  }
  return spec;
}

/** The flag that sets the field at this path; it sets further user agents, too. */
function longFlag(path: readonly PropertyKey[]): string {
  const field = knownFields().find(({ name }) => path.slice(0, 2).includes(name));
  return field?.option.long ?? '--user-agent';
}

/** Commander would take any argument after `--allow-private` as its value, even a seed. So this
 *  binds to it only arguments that look like ranges. */
export function withRangesBound(argv: readonly string[]): string[] {
  const bound: string[] = [];
  // These commands have no such option, and say so of what was typed.
  const isLookedAt = /^(?:check|try|extract|diff)$/.test(argv[2] ?? '');
  for (const arg of argv) {
    const before = bound.at(-1) ?? '';
    if (arg === '--allow-private') bound.push(isLookedAt ? arg : `${arg}=all`);
    else if (!before.startsWith('--allow-private=') || !/^[\da-f.:]+(\/\d+)?(,|$)/i.test(arg)) {
      bound.push(arg);
    } else {
      const ranges = before.slice(before.indexOf('=') + 1);
      bound[bound.length - 1] = `--allow-private=${ranges === 'all' ? arg : `${ranges},${arg}`}`;
    }
  }
  return bound;
}

/** `NAME: VALUE`; one per line in the environment. */
function headers(text: string, before: [string, string][] | undefined): [string, string][] {
  const given = text.split('\n').filter((line) => line.trim() !== '');
  const parsed = given.map((line): [string, string] => {
    const colon = line.indexOf(':');
    if (colon < 1) throw new InvalidArgumentError('It must be NAME: VALUE.');
    return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
  });
  return [...(before ?? []), ...parsed];
}

/** A page about the crawler, or a mail address; it becomes a comment in the user agent. */
function contact(text: string): string {
  const isMail = /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]+(\.[\w-]+)+$/.test(text);
  const isUrl = /^https?:\/\/[\x21-\x7e]+$/.test(text) && URL.canParse(text);
  if (text.length > 200 || /[()\\]/.test(text) || !(isMail || isUrl)) {
    throw new InvalidArgumentError('It must be a URL or a mail address: https://you.example/bot.');
  }
  return text;
}

function userAgents(text: string, before: string[] | undefined): string[] {
  if (text.trim() === '') throw new InvalidArgumentError('It must not be empty.');
  return several(text, before);
}

/** A day, or a moment: `2026-11-01`, `2026-11-01T08:00:00Z`. */
function moment(text: string): number {
  const ms = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d))?$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (Number.isNaN(ms) || ms < 0) {
    throw new InvalidArgumentError('It must be a date: 2026-11-01 or 2026-11-01T08:00:00Z.');
  }
  return ms;
}

/** `24h`, in ms. */
function duration(text: string): number {
  const ms = durationOf(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError('It must be a time such as 30s, 15m, 24h or 7d.');
}

/** `csv:FILE`, a URL; one per line in the environment. */
function outputs(text: string, before: Output[] | undefined): Output[] {
  const given = text.split('\n').filter((line) => line.trim() !== '');
  try {
    return [...(before ?? []), ...given.map((line) => outputOf(line.trim()))];
  } catch (error) {
    throw new InvalidArgumentError(`It ${messageOf(error)}.`);
  }
}

/** `images`; one of a crawl file says more. */
function downloadOf(text: string): unknown {
  if (text !== 'images') throw new InvalidArgumentError('It must be images.');
  return downloadFrom(text);
}

/** `off`, or `RULE=N` and `RULE=off`, separated by commas; a later one overrides. */
function trapLimits(text: string, before: Record<string, number> = {}): Record<string, number> {
  let limits = before;
  for (const part of listed(text)) {
    const [, rule = '', value = ''] = /^([a-z]+)=(\d+|off)$/.exec(part) ?? [];
    const limit = { [rule]: value === 'off' ? 0 : Number(value) };
    if (part === 'off') limits = Object.fromEntries(trapRules.map((name) => [name, 0]));
    else if (trapLimitsSchema.safeParse(limit).success) limits = { ...limits, ...limit };
    else throw new InvalidArgumentError(`It must be off, or limits like ${trapExample}.`);
  }
  return limits;
}
const trapExample = `segments=64,session=off; the rules: ${trapRules.join(' ')}`;

/** `img`, `all`, or classes separated by commas. */
function imageClasses(text: string): string | string[] {
  return text === 'img' || text === 'all' ? text : listed(text);
}

/** `all`, `none`, or directives separated by commas. */
function directives(text: string): string[] {
  if (text === 'all') return [...obeyable];
  const names = text === 'none' ? [] : listed(text);
  const known: readonly string[] = obeyable;
  if (names.every((name) => known.includes(name))) return [...new Set(names)];
  throw new InvalidArgumentError(`It must be all, none, or some of: ${known.join(',')}.`);
}

/** Names separated by commas; "+name" adds to the default names. */
function lazyNames(text: string): string[] {
  const adds = text.startsWith('+');
  const names = listed(text.replace('+', '').toLowerCase());
  return [...(adds ? lazyAttributes : []), ...names.filter((name) => name !== '')];
}

/** `all` (or `true`), or ranges separated by commas or white space. */
function addressRanges(text: string, before: string | string[] | undefined): 'all' | string[] {
  const ranges = text.split(/[\s,]+/).filter((range) => range !== '');
  if (before === 'all' || /^(all|true|1)$/i.test(text)) return 'all';
  for (const range of ranges) {
    if (!isAddressRange(range)) {
      throw new InvalidArgumentError(
        `${JSON.stringify(range.slice(0, 64))} is not an address range; write 10.0.0.0/8 or ::1.`,
      );
    }
  }
  return [...(Array.isArray(before) ? before : []), ...ranges];
}

/** `isFirst`: it is where a command could be; `what`: it is called this. @throws ConfigError */
export function seedUrl(text: string, isFirst: boolean, what = 'seed'): string {
  const url = canonicalUrl(text);
  if (url === undefined && isFirst && /^[a-z-]+$/i.test(text)) {
    throw new ConfigError(
      `"${text}" is neither a URL nor a command; see --help, and write URLs in full: https://example.com/`,
    );
  }
  if (url === undefined) {
    const guess = canonicalUrl(`https://${text}`) && !text.includes('://') ? text : 'example.com/';
    throw new ConfigError(
      `the ${what} "${text}" is not an http or https URL; write it in full: https://${guess}`,
    );
  }
  return url.href;
}

export const crawlName = checked(crawlNameSchema, (text) => text);
