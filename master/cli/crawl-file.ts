/**
 * A crawl file: the options of a crawl by the names of their flags, its seeds, and the rules of its
 * items, in YAML or JSON. An error names its line and its key.
 * Source: docs/crawl-files.md, docs/rules.md.
 */
import type { Command, Option } from 'commander';
import type * as z from 'zod';
import { type CrawlSpec, crawlNameSchema } from '../../shared/crawl.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { type FollowRule, followSchema } from '../../shared/follow.ts';
import { type Download, downloadFrom, downloadSchema, imageKeys } from '../../shared/images.ts';
import { type ItemRules, itemsSchema } from '../../shared/items.ts';
import { type Login, loginSchema, valueFault } from '../../shared/login.ts';
import { didYouMean } from '../../shared/nearest-name.ts';
import { misfitOf } from '../../shared/output-fit.ts';
import { type NamedOutput, namedOutputs, type Output, outputFrom } from '../../shared/outputs.ts';
import { type Render, renderSchema } from '../../shared/render.ts';
import { refusePatterns, refuseVain, vainText } from '../frontier/crawl/patterns.ts';
import { crawlFileKeys, optionValue } from './config-file.ts';
import { makeSpec, specFlags } from './crawl-options.ts';
import { noSeeds, type SeedList, seedListOf } from './seed-list.ts';
import type { Fault } from './seed-range.ts';
import { readYaml } from './yaml-file.ts';

export type CrawlFile = {
  readonly path: string;
  readonly crawl: string;
  readonly list: SeedList;
  readonly spec: CrawlSpec;
  readonly items: ItemRules;
  readonly follow: readonly FollowRule[] | undefined;
  readonly login: Login | undefined;
  /** With their names, and the records that they take in a crawl with these items. */
  readonly outputs: readonly NamedOutput[];
  readonly render: Render | undefined;
  /** The values of its options, by the attributes of their flags. */
  readonly values: Readonly<Record<string, unknown>>;
  /** The options that it sets, as they stand there. */
  readonly options: readonly (readonly [name: string, value: unknown])[];
  lineOf(path: readonly PropertyKey[]): number;
};

/** Keys with values of their own that are said as they stand. */
const saidKeys: readonly string[] = ['render', 'download'];
const ownKeys = ['crawl', 'seeds', ...saidKeys, ...crawlFileKeys];

/** Options of a master, which may have several crawls. */
export const mastersKeys: readonly string[] = [
  'data',
  'out',
  'only',
  'config',
  'slaves',
  'exit-when-done',
  'compact',
  'listen',
  'authkey-file',
  'auth-digest',
  'tls',
  'tls-cert',
  'tls-key',
  'queues',
  'durable-put',
  'connections',
  'connections-per-address',
  'politeness-group',
  'sink-backlog',
  'memory-limit',
  'disk-reserve',
  'recent-urls',
  'status-every',
  'json-logs',
  'log-level',
];

/** Is this argument a crawl file, not a seed? */
export function isCrawlFile(argument: string): boolean {
  return /\.(?:ya?ml|json)$/i.test(argument) && !argument.includes('://');
}

/** `text`: what stands there, if that is not in a file. @throws ConfigError the first fault, with
 *  its line and key */
export function readCrawlFile(path: string, text?: string): CrawlFile {
  const file = readYaml(path, 'crawl file', text);
  const { value } = file;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ConfigError(
      `${path} must hold keys such as seeds and items; see docs/crawl-files.md`,
    );
  }
  const fault = (at: readonly PropertyKey[], why: string) =>
    new ConfigError(`${path}:${file.lineOf(at)}: ${at.map(String).join('.')}: ${why}`);
  const settings = value as Record<string, unknown>;
  const { crawl = 'default', seeds = [], shard, follow, items = {} } = settings;
  const options = Object.entries(settings).filter(([key]) => !ownKeys.includes(key));
  if (settings['output'] !== undefined && settings['outputs'] !== undefined) {
    throw fault(['output'], 'outputs is there, too: write all of them in outputs');
  }
  const own = {
    output: outputsOf(settings['outputs'], fault),
    download: downloadOf(settings['download'], fault),
  };
  const values = valuesOf(options, own, fault);
  const name = nameOf(crawl, fault);
  const itemRules = itemsOf(items, fault);
  const given = (values['output'] ?? []) as readonly Output[];
  const outputs = namedOutputs(given, [], Object.keys(itemRules).length > 0);
  const misfit = misfitOf(outputs, itemRules, values['download'] !== undefined);
  if (misfit !== undefined) throw fault(['outputs', misfit.index], misfit.why);
  const render = renderOf(settings['render'], fault);
  // `outputs` is the key of a crawl file, `--output` the flag.
  const keyOf = (option: string) => (option === 'output' && own.output ? 'outputs' : option);
  const spec = specOf(values, { items: itemRules, render }, ([option = ''], why) =>
    fault([keyOf(String(option))], why),
  );
  const followRules = followOf(follow, itemRules, fault);
  const said = Object.entries(settings).filter(([key]) => saidKeys.includes(key));
  const list = seedListOf(path, seeds, shard, fault);
  refuseSources(list, spec, fault);
  return {
    path,
    crawl: name,
    spec,
    values,
    options: [...options, ...said],
    list,
    items: itemRules,
    follow: followRules,
    login: loginOf(settings['login'], fault),
    outputs,
    render,
    lineOf: (at) => file.lineOf(at),
  };
}

/** Seeds that the operator names, and those of a crawl file. */
export type GivenSeeds = {
  readonly seeds: readonly string[];
  readonly list: SeedList;
  /** The path of the crawl file. */
  readonly path: string | undefined;
};

/**
 * A crawl file among the arguments of a command stands for its seeds, and for the options that the
 * command line leaves open. `source`: where its options count as coming from; flags, and with
 * `config` variables, too, come before them. Its path and its items are values of the command, too:
 * `crawlFile`, `items`, `follow`, `login`. `textOf`: reads its text where that is not in a file.
 * @throws ConfigError
 */
export function withCrawlFile(
  command: Command,
  args: readonly string[],
  source: 'config' | 'cli',
  textOf: () => string | undefined = () => undefined,
): GivenSeeds {
  const paths = args.filter(isCrawlFile);
  const [path] = paths;
  if (path === undefined) return { seeds: args, list: noSeeds, path };
  if (paths.length > 1) throw new ConfigError(`${paths.join(' and ')}: give one crawl file`);
  const text = textOf();
  const { crawl, list, values, items, follow, login, render } = readCrawlFile(path, text);
  const set = (name: string, value: unknown) => {
    const given = command.getOptionValueSource(name);
    if (given === 'cli' || (given === 'env' && source === 'config')) return;
    command.setOptionValueWithSource(name, value, source);
  };
  for (const [name, value] of Object.entries(values)) set(name, value);
  set('crawl', crawl);
  set('crawlFile', path);
  if (text !== undefined) set('crawlText', text);
  if (Object.keys(items).length > 0) set('items', items);
  if (follow !== undefined) set('follow', follow);
  if (login !== undefined) set('login', login);
  if (render !== undefined) set('render', render);
  return { seeds: args.filter((arg) => arg !== path), list, path };
}

function valuesOf(
  options: readonly (readonly [string, unknown])[],
  own: Record<string, unknown>,
  fault: Fault,
): Record<string, unknown> {
  const flags = new Map(specFlags().map((option) => [option.long?.slice(2) ?? '', option]));
  const given = Object.entries(own).filter(([, value]) => value !== undefined);
  const values: Record<string, unknown> = Object.fromEntries(given);
  for (const [name, value] of options) {
    const option: Option | undefined = flags.get(name);
    if (option === undefined) {
      const why = mastersKeys.includes(name)
        ? `is an option of the master, not of a crawl: start the master with --${name}`
        : unknownKey(name, [...flags.keys(), ...ownKeys]);
      throw fault([name], why);
    }
    try {
      values[option.attributeName()] = optionValue(option, value);
    } catch (error) {
      throw fault([name], messageOf(error));
    }
  }
  return values;
}

/** `render` is judged, and is no part of it: what reads documents as they came needs none. */
function specOf(
  values: Record<string, unknown>,
  { items, render }: Pick<CrawlFile, 'items' | 'render'>,
  fault: Fault,
): CrawlSpec {
  try {
    if (render !== undefined) makeSpec({ ...values, render }, items);
    const spec = makeSpec(values, items);
    refusePatterns(spec);
    refuseVain(spec);
    return spec;
  } catch (error) {
    const message = messageOf(error);
    const [, name = ''] = /^--([a-z-]+):? /.exec(message) ?? [];
    throw fault([name], message.replace(/^--[a-z-]+:? /, ''));
  }
}

/** A rule that matches no URL would have no row. */
function refuseVainMatches(items: ItemRules, fault: Fault): void {
  for (const [name, { match }] of Object.entries(items)) {
    const [source, at] =
      typeof match === 'object' ? [match.url, ['match', 'url']] : [match, ['match']];
    const why = source === undefined ? undefined : vainText(source);
    if (why !== undefined) throw fault(['items', name, ...at], why);
  }
}

/** The faults that would be found when a source is asked. */
function refuseSources(list: SeedList, { everyMs }: CrawlSpec, fault: Fault): void {
  for (const part of list.parts) {
    if (!('source' in part)) continue;
    const { source, at } = part;
    if (everyMs !== undefined && part.everyMs !== undefined) {
      const why = 'the whole crawl is repeated, with its sources of seeds; leave this out';
      throw fault([...at.split('.'), 'every'], why);
    }
    if (!('pattern' in source)) continue;
    try {
      refusePatterns({ include: [source.pattern], exclude: [] });
    } catch (error) {
      throw fault([...at.split('.'), 'pattern'], messageOf(error).replace(/^--include /, ''));
    }
  }
}

/** `outputs:` is a list of what `--output` takes, or of maps of an output and its options. */
function outputsOf(outputs: unknown, fault: Fault): Output[] | undefined {
  if (outputs === undefined) return undefined;
  if (!Array.isArray(outputs)) throw fault(['outputs'], 'must be a list, such as [csv: pages.csv]');
  return outputs.map((entry, index) => {
    try {
      return outputFrom(entry);
    } catch (error) {
      throw fault(['outputs', index], messageOf(error));
    }
  });
}

/** The files to download: `images`, or which. */
function downloadOf(download: unknown, fault: Fault): Download | undefined {
  if (download === undefined) return undefined;
  const parsed = downloadSchema.safeParse(downloadFrom(download));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = (issue?.path ?? []).map((key) =>
    String(key).replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  );
  if (issue?.code !== 'unrecognized_keys') {
    const why = path.length === 0 || path.length === 1 ? wantsImages : issue?.message;
    throw fault(['download', ...path], why ?? 'is not valid');
  }
  const [key = ''] = issue.keys;
  const known = path.length === 0 ? ['images'] : imageKeys;
  throw fault(['download', ...path, key.trim()], unknownKey(key.trim(), known));
}
const wantsImages = 'must be images, or a map such as {images: {min-width: 200}}';

function unknownKey(name: string, known: readonly string[]): string {
  return `there is no such key; ${didYouMean(name, known, 'see docs/crawl-files.md')}`;
}

function nameOf(crawl: unknown, fault: Fault): string {
  const parsed = crawlNameSchema.safeParse(crawl);
  if (parsed.success) return parsed.data;
  throw fault(['crawl'], parsed.error.issues[0]?.message ?? 'is not valid');
}

function itemsOf(items: unknown, fault: Fault): ItemRules {
  const parsed = itemsSchema.safeParse(items);
  if (!parsed.success) throw itemsFault(parsed.error.issues, items, fault);
  refuseVainMatches(parsed.data, fault);
  return parsed.data;
}

/** The issue that says most: of a union, that of the form which was meant. */
function itemsFault(
  issues: readonly z.core.$ZodIssue[],
  items: unknown,
  fault: Fault,
): ConfigError {
  let [issue] = issues;
  let path: PropertyKey[] = [...(issue?.path ?? [])];
  while (issue?.code === 'invalid_union') {
    const value = path.reduce<unknown>(
      (at, key) => (at as Record<PropertyKey, unknown>)[key],
      items,
    );
    // The last form of each union is the object.
    const branch = typeof value === 'object' && value !== null ? issue.errors.at(-1) : undefined;
    const inner = branch?.[0];
    // Not even the form that was meant, such as a list: the union says what it takes.
    if (inner === undefined || (inner.code === 'invalid_type' && inner.path.length === 0)) break;
    issue = inner;
    path = [...path, ...inner.path];
  }
  const message = issue?.message ?? 'is not valid';
  if (issue?.code !== 'unrecognized_keys') return fault(['items', ...path], message);
  const [key = ''] = issue.keys;
  const known = path.length <= 1 ? itemKeys : fieldKeys;
  return fault(['items', ...path, key], unknownKey(key, known));
}

function loginOf(login: unknown, fault: Fault): Login | undefined {
  const parsed = loginSchema.optional().safeParse(login);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw fault(['login', ...(issue?.path ?? [])], issue?.message ?? 'is not valid');
  }
  for (const [name, text] of Object.entries(parsed.data?.fields ?? {})) {
    const why = valueFault(text);
    if (why !== undefined) throw fault(['login', 'fields', name], why);
  }
  return parsed.data;
}

function renderOf(render: unknown, fault: Fault): Render | undefined {
  const parsed = renderSchema.optional().safeParse(render);
  if (parsed.success) return parsed.data;
  throw fault(['render'], parsed.error.issues[0]?.message ?? 'is not valid');
}

function followOf(
  follow: unknown,
  items: ItemRules,
  fault: Fault,
): readonly FollowRule[] | undefined {
  const parsed = followSchema.optional().safeParse(follow);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const path = ['follow', ...(issue?.path ?? [])];
    if (issue?.code !== 'unrecognized_keys') throw fault(path, issue?.message ?? 'is not valid');
    const [key = ''] = issue.keys;
    throw fault([...path, key], unknownKey(key, followKeys));
  }
  if (parsed.data !== undefined && Object.hasOwn(items, 'follow')) {
    const why = 'the rules of follow are counted under this name; take another one';
    throw fault(['items', 'follow'], why);
  }
  return parsed.data;
}

const followKeys = ['css', 'xpath', 'href', 'regex', 'priority', 'pick', 'count', 'seed'];
const itemKeys = ['match', 'each', 'script', 'fields', 'zip', 'article'];
const fieldKeys = [
  'css',
  'xpath',
  'json',
  'regex',
  'value',
  'header',
  'type',
  'trim',
  'default',
  'required',
  'all',
  'each',
  'fields',
  'url',
  'content',
];
