/**
 * The effects of changed options of a crawl that is there: which of them may change, what the new
 * ones are, which links would now be taken that were skipped before, and whether URLs that wait
 * may no longer belong to the crawl. Pure.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import {
  type CrawlSpec,
  crawlSpecSchema,
  type FixedField,
  isFixedField,
  type TrapLimits,
  trapLimitsSchema,
  trapRules,
  withDigests,
} from '../../../shared/crawl.ts';
import { CommandError } from '../../../shared/errors.ts';
import { hasOwnRules, withLinkRule } from '../../../shared/link-rule.ts';
import type { Login } from '../../../shared/login.ts';
import { misfitOf, singleOf } from '../../../shared/output-fit.ts';
import {
  isOutside,
  isSameTarget,
  namedOutputs,
  type Output,
  outputText,
} from '../../../shared/outputs.ts';
import type { ChangedField, SkipReason } from '../../../shared/protocol.ts';
import type { SpecMark } from '../../store/records.ts';

/** Fields of a spec, unchecked, as a request has them. */
export type PartialSpec = Readonly<Record<string, unknown>> | undefined;

export type SpecChange = {
  readonly spec: CrawlSpec;
  /** Empty: the crawl has these options already. */
  readonly changed: readonly ChangedField[];
  /** Links that were skipped for these reasons may now be taken. */
  readonly wider: readonly SkipReason[];
  /** URLs that wait may no longer belong to the crawl. */
  readonly isNarrower: boolean;
};

/** Options of a crawl that cannot change: their flags, and why. */
const fixed: Readonly<Record<FixedField, readonly [flag: string, why: string]>> = {
  order: ['--order', 'the URLs that wait have their places by it'],
  canonical: ['--canonical', 'the pages that are done have their names by it'],
  urlsExpected: ['--urls-expected', 'it sized the filter, which grows by itself if there are more'],
  'fetch.images': ['--images', 'the pages that are done have their images by it'],
  'fetch.srcset': ['--srcset', 'the pages that are done have their images by it'],
  'fetch.lazyAttributes': ['--lazy-attributes', 'the pages that are done have their images by it'],
  'fetch.items': ['items', 'the pages that are done have their rows by them'],
  'fetch.archive': ['--archive', 'the pages that are done are in the archive, or are not'],
  'fetch.save': ['--save', 'the pages that are done are saved, or are not'],
  'fetch.download': ['--download', 'the images of pages that are done were taken, or were not'],
  'fetch.imagesTo': ['--images-to', 'the images that are kept are in the other folder'],
  'fetch.follow': ['follow', 'the links of the pages that are done were picked by them'],
};

/** Their rows are those of a rule. */
const linkOutputs = [
  '--output',
  'pages that are done have no rows of links, or have them',
] as const;

/** Rules that judge a URL by its form; the others count the URLs that were admitted. */
const rulesOfForm = ['length', 'segments', 'repeats', 'parameters'] as const;
/** Of a message: the names of fields are a peer's. */
const faultCharsMax = 512;
const scopes: readonly CrawlSpec['scope'][] = ['host', 'domain', 'any'];

/** Returns a spec with the fields of `part` in place of those of `base`. `isNew`: of a crawl that
 *  begins; else `base` is its own, and its outputs keep their names.
 *  @throws CommandError E_BAD_REQUEST which field is wrong */
export function wholeSpec(base: CrawlSpec, part: PartialSpec, isNew = false): CrawlSpec {
  const inner = (name: 'fetch' | 'traps') => {
    const given = part?.[name];
    return typeof given === 'object' ? { ...base[name], ...given } : (given ?? base[name]);
  };
  const isOwn = isNew && part?.['outputs'] !== undefined;
  const before = isOwn ? [] : (base.outputs ?? []);
  const parsed = crawlSpecSchema.safeParse({
    ...base,
    ...part,
    fetch: inner('fetch'),
    traps: inner('traps'),
  });
  if (parsed.success) return withLinkRule(withNames(withDigests(parsed.data), before));
  const issue = parsed.error.issues[0];
  const text = `spec: ${issue?.path.join('.')} ${issue?.message}`;
  throw new CommandError('E_BAD_REQUEST', text.slice(0, faultCharsMax));
}

/** Each output gets its name, which it keeps.
 *  @throws CommandError E_BAD_REQUEST one does not fit the rules, or another output */
function withNames(spec: CrawlSpec, before: readonly Output[]): CrawlSpec {
  const { outputs, fetch } = spec;
  if (outputs === undefined) return spec;
  const named = namedOutputs(outputs, before, hasOwnRules(fetch));
  const single = spec.everyMs === undefined ? undefined : singleOf(named);
  const fit = isDeepStrictEqual(named, before)
    ? undefined
    : misfitOf(named, fetch.items, fetch.download !== undefined);
  const misfit = fit ?? single;
  if (misfit === undefined) return { ...spec, outputs: named };
  const { kind = '', target = '' } = named[misfit.index] ?? {};
  const text = `the output ${kind}:${target} ${misfit.why}`;
  throw new CommandError('E_BAD_REQUEST', text.slice(0, faultCharsMax));
}

/** Returns what another start is compared with. */
export function markOf(spec: CrawlSpec): SpecMark {
  const { maxPages } = spec;
  // In the order of the schema, whoever made it.
  const text = JSON.stringify(crawlSpecSchema.safeParse(spec).data ?? spec);
  const digest = createHash('sha256').update(text).digest('base64');
  return { digest, ...(maxPages !== undefined && { maxPages }) };
}

/** Returns the fields that make `spec` of another one: null where only the other has a value. */
export function wholePart(kept: CrawlSpec, spec: CrawlSpec): Record<string, unknown> {
  const nulls = (of: object) => Object.fromEntries(Object.keys(of).map((name) => [name, null]));
  return { ...nulls(kept), ...spec, fetch: { ...nulls(kept.fetch), ...spec.fetch } };
}

/** Returns what becomes of a crawl's spec by these fields; null: the default of that field.
 *  `isNew`: nothing was done by the old ones, so that each may change.
 *  @throws CommandError E_BAD_REQUEST a field that is wrong, or cannot change */
export function changeOf(kept: CrawlSpec, part: PartialSpec, isNew = false): SpecChange {
  // A version before may have stored fewer fields.
  const before = crawlSpecSchema.safeParse(kept).data ?? kept;
  const { base, given } = withoutNulls(before, part);
  const spec = wholeSpec(base, given);
  const changed = changedFields(before, spec);
  refuseOtherFiles(before.outputs, spec.outputs);
  for (const { field } of isNew ? [] : changed) {
    if (!isFixedField(field)) continue;
    const isOfLinks = field === 'fetch.items' && part?.['outputs'] !== undefined;
    const [flag, why] = isOfLinks ? linkOutputs : fixed[field];
    throw new CommandError(
      'E_BAD_REQUEST',
      `${flag} cannot change: ${why}; crawl again with another one: recrawl … --as NEW ${flag} …`,
    );
  }
  return { spec, changed, wider: widened(before, spec), isNarrower: isNarrower(before, spec) };
}

/** A file that is begun keeps its form. @throws CommandError E_BAD_REQUEST */
function refuseOtherFiles(before: CrawlSpec['outputs'], after: CrawlSpec['outputs']): void {
  for (const output of after ?? []) {
    const old = before?.find(({ name }) => name === output.name);
    if (old === undefined || !isSameTarget(old, output) || isDeepStrictEqual(old, output)) continue;
    if (output.kind !== 'csv' && output.kind !== 'jsonl') continue;
    throw new CommandError(
      'E_BAD_REQUEST',
      `the output ${outputText(output)} has begun with other options; name another file`,
    );
  }
}

/** Outputs outside the folder of their crawl can be given where the master is started alone.
 *  @throws CommandError E_BAD_REQUEST */
export function refuseOutsideFiles(part: PartialSpec, kept?: CrawlSpec): void {
  const parsed = crawlSpecSchema.shape.outputs.safeParse(part?.['outputs'] ?? undefined);
  for (const output of parsed.data ?? []) {
    if (!isOutside(output) || kept?.outputs?.some((one) => isSameTarget(one, output))) continue;
    throw new CommandError(
      'E_BAD_REQUEST',
      `the output ${output.kind}:${output.target} is outside the folder of the crawl: name a file ` +
        'in it, or give the output on the command line of the master itself',
    );
  }
}

/** Takes the fields that are null out of both. */
function withoutNulls(before: CrawlSpec, part: PartialSpec) {
  const cleared = (of: object, by: object) => {
    const nulls = new Set(Object.keys(by).filter((name) => Reflect.get(by, name) === null));
    return Object.fromEntries(Object.entries(of).filter(([name]) => !nulls.has(name)));
  };
  const given = cleared(part ?? {}, part ?? {});
  const base = cleared(before, part ?? {});
  const { fetch } = given;
  if (typeof fetch === 'object' && fetch !== null) {
    given['fetch'] = cleared(fetch, fetch);
    base['fetch'] = cleared(before.fetch, fetch);
  }
  return { base: crawlSpecSchema.parse(base), given };
}

function changedFields(before: CrawlSpec, after: CrawlSpec): ChangedField[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...old.keys(), ...now.keys()])];
  return names
    .filter((field) => !isDeepStrictEqual(old.get(field), now.get(field)))
    .map((field) => {
      const [from, to] = [old, now].map((of) => shown(field, of.get(field)));
      return { field, ...(from !== undefined && { from }), ...(to !== undefined && { to }) };
    });
}

function fieldsOf({ fetch, ...spec }: CrawlSpec): Map<string, unknown> {
  const fields = new Map<string, unknown>(Object.entries(spec));
  for (const [name, value] of Object.entries(fetch)) fields.set(`fetch.${name}`, value);
  for (const [name, value] of fields) if (value === undefined) fields.delete(name);
  return fields;
}

/** A value for logs and terminals: without what is secret in headers, cookies, proxies and
 *  logins. */
function shown(field: string, value: unknown): unknown {
  if (field === 'fetch.login') return (value as Login | undefined)?.url;
  if (!Array.isArray(value)) return value;
  switch (field) {
    case 'outputs':
      return value.map(outputText);
    case 'fetch.headers':
      return value.map(([name]: readonly string[]) => name);
    case 'fetch.cookies':
      return value.map(({ name }: { readonly name: string }) => name);
    case 'fetch.proxies':
      return value.map((url: string) => {
        const { protocol, host } = new URL(url);
        return `${protocol}//${host}`;
      });
    default:
      return value;
  }
}

/** The reasons for which links were skipped that may now be taken. */
function widened(before: CrawlSpec, after: CrawlSpec): SkipReason[] {
  const reasons: SkipReason[] = [];
  if (scopes.indexOf(after.scope) > scopes.indexOf(before.scope)) reasons.push('host');
  if (takesMore(before.include, after.include)) reasons.push('include');
  if (lacksSome(after.exclude, before.exclude)) reasons.push('exclude');
  if (depthOf(after) > depthOf(before)) reasons.push('depth');
  const [old, now] = [limitsOf(before), limitsOf(after)];
  return [...reasons, ...trapRules.filter((rule) => limitOf(now, rule) > limitOf(old, rule))];
}

function isNarrower(before: CrawlSpec, after: CrawlSpec): boolean {
  const [old, now] = [limitsOf(before), limitsOf(after)];
  return (
    scopes.indexOf(after.scope) < scopes.indexOf(before.scope) ||
    takesMore(after.include, before.include) ||
    lacksSome(before.exclude, after.exclude) ||
    depthOf(after) < depthOf(before) ||
    (after.sitemaps === 'none' && before.sitemaps !== 'none') ||
    rulesOfForm.some((rule) => limitOf(now, rule) < limitOf(old, rule))
  );
}

/** Does a list of what is included take URLs that the other does not? It errs towards yes. */
function takesMore(before: readonly string[], after: readonly string[]): boolean {
  if (before.length === 0) return false;
  return after.length === 0 || lacksSome(before, after);
}

/** Has the second list a pattern that the first lacks? */
function lacksSome(list: readonly string[], other: readonly string[]): boolean {
  return other.some((pattern) => !list.includes(pattern));
}

function depthOf({ maxDepth = Number.POSITIVE_INFINITY }: CrawlSpec): number {
  return maxDepth;
}

function limitsOf({ traps }: CrawlSpec): TrapLimits {
  return trapLimitsSchema.parse(traps ?? {});
}

/** 0 is no limit. */
function limitOf(limits: TrapLimits, rule: keyof TrapLimits): number {
  return limits[rule] === 0 ? Number.POSITIVE_INFINITY : limits[rule];
}
