/** `check FILE` and `try FILE URL`: what a crawl file says, and what its rules find on one page. */

import { join } from 'node:path';
import type { Command } from 'commander';
import { InvalidArgumentError } from 'commander';
import { amount } from '../../shared/amount.ts';
import { makeCommand } from '../../shared/cli.ts';
import { ConfigError } from '../../shared/errors.ts';
import { fieldsOfRule, oddities, ruleLimits } from '../../shared/items.ts';
import type { RuleResult, TrialPage } from '../../shared/rule-results.ts';
import { visible, visibleJson } from '../../shared/visible.ts';
import { misplacedIn } from '../sinks/output-places.ts';
import { type CrawlFile, isCrawlFile, readCrawlFile } from './crawl-file.ts';
import { seedUrl } from './crawl-options.ts';
import { explained, followText, plainSeeds, selectsText } from './explain.ts';
import { folderFlags } from './serve-options.ts';
import { Trial } from './trial.ts';

/** A command that needs no master. */
export type TryOptions =
  | { readonly kind: 'check'; readonly file: string; readonly out: string; readonly json: boolean }
  | { readonly kind: 'try'; readonly file: string; readonly url: string; readonly json: boolean };

const rowsShown = 3;
const valueChars = 60;

export function tryCommands(
  take: (options: TryOptions) => void,
  env: NodeJS.ProcessEnv,
): Command[] {
  const file = (text: string) => {
    if (isCrawlFile(text)) return text;
    throw new InvalidArgumentError('It must be a file that ends with .yaml, .yml or .json.');
  };
  // Where a master that is started here has its results.
  const flag = folderFlags().find(({ long }) => long === '--out');
  const out = env['ORB_OUT'] ?? String(flag?.defaultValue);
  const isJson = (values: Record<string, unknown>) => values['json'] === true;
  return [
    makeCommand('check', env)
      .description('check a crawl file and explain what it says; nothing is fetched')
      .argument('<file>', 'crawl file (YAML or JSON)', file)
      .option('--json', 'print the answer as JSON', false)
      .action((path: string, values: Record<string, unknown>) =>
        take({ kind: 'check', file: path, out, json: isJson(values) }),
      ),
    makeCommand('try', env)
      .description('fetch one page and show what each rule of a crawl file finds on it')
      .argument('<file>', 'crawl file (YAML or JSON)', file)
      .argument('<url>', 'URL of the page')
      .option('--json', 'print the answer as JSON', false)
      .action((path: string, url: string, values: Record<string, unknown>) =>
        take({ kind: 'try', file: path, url: seedUrl(url, false), json: isJson(values) }),
      ),
  ];
}

/** Prints the answer. Returns whether all is well: each rule that selects the page found something.
 *  @throws ConfigError the file is not valid, or the page cannot be had */
export async function tryOut(options: TryOptions, print: (line: string) => void): Promise<boolean> {
  const file = readCrawlFile(options.file);
  if (options.kind === 'try' && !hasRules({ ...file, login: undefined })) {
    throw new ConfigError(
      `${file.path} has no items and no follow, so there is nothing to try on a page`,
    );
  }
  const trial = await Trial.start();
  try {
    const missing = await refuseProblems(trial, file);
    if (options.kind === 'check') {
      await check(file, missing, options, print);
      return true;
    }
    // Slaves elsewhere may have what this machine lacks, but here is nothing to be tried.
    if (missing.length > 0) throw new ConfigError(missing.join('; '));
    return await tryPage(trial, file, options, print);
  } finally {
    await trial.close();
  }
}

/** `missing`: what this machine lacks, each a line. */
async function check(
  file: CrawlFile,
  missing: readonly string[],
  { out, json }: Extract<TryOptions, { kind: 'check' }>,
  print: (line: string) => void,
): Promise<void> {
  await refuseOutputs(out, file);
  const warnings = [...oddLines(file), ...idleKeys(file), ...emptyColumns(file), ...missing];
  if (!json) {
    for (const line of [...explained(file), ...warned(warnings)]) print(visible(line));
    return;
  }
  const { crawl, list, items, follow } = file;
  const sources = list.parts.filter((part) => 'source' in part);
  const seeds = plainSeeds(list).length;
  const more = { ...(sources.length > 0 && { sources }), ...(follow && { follow }) };
  print(visibleJson(JSON.stringify({ crawl, seeds, ...more, items, warnings })));
}

/** Returns whether all is well. */
async function tryPage(
  trial: Trial,
  file: CrawlFile,
  { url, json }: Extract<TryOptions, { kind: 'try' }>,
  print: (line: string) => void,
): Promise<boolean> {
  const { path, items, follow, login, render } = file;
  const spec = { ...file.spec, fetch: { ...file.spec.fetch, ...(render && { render }) } };
  const page = await trial.page(url, {
    spec,
    items,
    follow,
    jsonBytesMax: spec.fetch.ruleBytes ?? ruleLimits.jsonBytes,
    isRendered: true,
  });
  const warnings = oddLines(file);
  if (login !== undefined) {
    warnings.push(`${path}: try does not log in: it shows the page that a stranger gets`);
  }
  if (page.unrendered !== undefined) {
    warnings.push(
      `${path}: try has no browser: it shows the page as it came, before its scripts (${page.unrendered})`,
    );
  }
  if (json) print(visibleJson(JSON.stringify({ ...page, warnings })));
  else for (const line of [...shown(file, page), ...warned(warnings)]) print(visible(line));
  return isWell(page);
}

/** Likely mistakes in the rules of items, each a line. */
function oddLines(file: CrawlFile): string[] {
  return oddities(file.items).map(({ path, message }) => placed(file, ['items', ...path], message));
}

/** @throws ConfigError an output of the crawl file has no file of its own */
async function refuseOutputs(out: string, file: CrawlFile): Promise<void> {
  const { outputs = [], fetch } = file.spec;
  const misplaced = await misplacedIn(join(out, file.crawl), outputs, fetch.download !== undefined);
  if (misplaced === undefined) return;
  throw new ConfigError(placed(file, ['outputs', String(misplaced.index)], misplaced.why));
}

/** Keys that do nothing in this crawl, each a line: a flag may still give what they need. */
function idleKeys(file: CrawlFile): string[] {
  const { follow = [], spec } = file;
  const idle: string[] = [];
  const ranked = follow.findIndex(({ priority }) => priority !== undefined);
  if (ranked >= 0 && spec.order !== 'priority') {
    const at = ['follow', String(ranked), 'priority'];
    idle.push(placed(file, at, 'does nothing without order: priority'));
  }
  const { download, archive } = spec.fetch;
  if (download?.images.store === 'none' && archive === undefined) {
    const why = 'none keeps no image without archive: warc; images.jsonl lists them alone';
    idle.push(placed(file, ['download', 'images', 'store'], why));
  }
  return idle;
}

/** Columns of outputs that no rule fills, each a line. */
function emptyColumns(file: CrawlFile): string[] {
  return file.outputs.flatMap(({ rule, columns = [] }, index) => {
    const rules = rule === undefined ? Object.values(file.items) : [file.items[rule]];
    const fields = rules.flatMap((one) =>
      one === undefined ? [] : Object.keys(fieldsOfRule(one)),
    );
    const strange = columns.filter((name) => name !== 'item' && !fields.includes(name));
    // Without any field of a rule it is an output of a page function.
    if (fields.length === 0 || strange.length === 0) return [];
    const why = `no rule has the field ${strange.join(', ')}: only a page function fills such a column`;
    const at = ['outputs', String(index), 'columns'];
    return [placed(file, at, `${why}; values of the page are fields, too: url: {value: url}`)];
  });
}

/** Refuses a crawl file with a rule that is not valid, before a crawl is made of it. Without
 *  slave.js beside master.js nobody here can tell: then the slaves count a failure for each page.
 *  `text`: what stands in it, if that is not in a file.
 *  Returns warnings: what slaves on this machine cannot do, and columns that stay empty.
 *  @throws ConfigError the faults, with their lines and keys */
export async function refuseRules(
  path: string | undefined,
  text?: string,
): Promise<readonly string[]> {
  if (path === undefined || !Trial.isThere) return [];
  const file = readCrawlFile(path, text);
  if (!hasRules(file)) return [];
  const trial = await Trial.start();
  try {
    const missing = await refuseProblems(trial, file);
    const lacks = missing.map(
      (line) => `${line}; slaves on this machine get no pages of the crawl`,
    );
    return [...lacks, ...emptyColumns(file)];
  } finally {
    await trial.close();
  }
}

/** Returns what this machine lacks, each a line. */
async function refuseProblems(trial: Trial, file: CrawlFile): Promise<readonly string[]> {
  await refuseLogin(trial, file);
  const problems = await trial.check(file.items, file.follow);
  const lines = (isMissing: boolean) =>
    problems
      .filter((problem) => (problem.isMissing === true) === isMissing)
      .map(({ path, message }) => {
        const isFollow = path[0] === 'follow' && file.follow !== undefined;
        return placed(file, isFollow ? path : ['items', ...path], message);
      });
  const faults = lines(false);
  if (faults.length > 0) throw new ConfigError(faults.join('; '));
  return lines(true);
}

/** The selectors of a login, which are compiled as those of a rule. @throws ConfigError */
async function refuseLogin(trial: Trial, file: CrawlFile): Promise<void> {
  const { login } = file;
  for (const key of ['form', 'until'] as const) {
    const each = login?.[key];
    if (each === undefined) continue;
    const [problem] = await trial.check({ login: { each, fields: { page: { value: 'url' } } } });
    if (problem !== undefined) throw new ConfigError(placed(file, ['login', key], problem.message));
  }
}

function hasRules({ items, follow, login }: CrawlFile): boolean {
  return login !== undefined || follow !== undefined || Object.keys(items).length > 0;
}

function placed(file: CrawlFile, path: readonly string[], message: string): string {
  return `${file.path}:${file.lineOf(path)}: ${path.join('.')}: ${message}`;
}

function warned(warnings: readonly string[]): string[] {
  return warnings.length === 0 ? [] : ['', ...warnings.map((line) => `warning: ${line}`)];
}

function isWell({ error, rules }: TrialPage): boolean {
  if (error !== undefined || rules === undefined || 'failed' in rules) return false;
  const { rows, failures, follow = [] } = rules.result;
  const isFollowed = follow.some(({ urls }) => urls.length > 0);
  return (rows.length > 0 || isFollowed) && failures.length === 0;
}

function shown(file: CrawlFile, page: TrialPage): string[] {
  const { status, finalUrl, type, charset, bytes, ms, error, redirectedTo, rules } = page;
  const what = [type, charset, amount(bytes, 'byte'), `${Math.round(ms)} ms`].filter(Boolean);
  const lines = status === 0 ? [] : [`${finalUrl}: status ${status}, ${what.join(', ')}`];
  if (page.rendered !== undefined) {
    const { requests, missed } = page.rendered;
    const lacks = missed.length > 0 ? `; missed: ${missed.join(', ')}` : '';
    lines.push(`rendered in a browser, with ${amount(requests, 'request')} to its host${lacks}`);
  }
  if (redirectedTo !== undefined) lines.push(`redirects to ${redirectedTo}; try that URL`);
  if (error !== undefined) lines.push(`no rule was evaluated: ${error}`);
  if (page.cut) lines.push('warning: the page is longer than page-bytes, and was cut');
  if (rules === undefined) return lines;
  if ('failed' in rules) return [...lines, `the rules failed: ${rules.failed}`];
  for (const name of Object.keys(file.items)) lines.push(...ruleLines(file, name, rules.result));
  lines.push(...followLines(file, rules.result));
  if (page.tbodies === 0 && oddities(file.items).some(({ message }) => /tbody/.test(message))) {
    lines.push('', 'the page has no tbody at all');
  }
  return lines;
}

/** The links that each follow rule picks. */
function followLines(
  { follow = [] }: CrawlFile,
  { follow: found, failures }: RuleResult,
): string[] {
  if (follow.length === 0) return [];
  const failure = failures.find(({ rule }) => rule === 'follow');
  if (failure !== undefined) return ['', `follow: failed: ${failure.message}`];
  return follow.flatMap((rule, i) => {
    const urls = found?.[i]?.urls ?? [];
    const lines = ['', `follow ${followText(rule)}: ${amount(urls.length, 'link')}`];
    for (const url of urls.slice(0, rowsShown)) lines.push(`  ${url}`);
    if (urls.length > rowsShown) lines.push(`  … ${urls.length - rowsShown} more`);
    return lines;
  });
}

function ruleLines(file: CrawlFile, name: string, result: RuleResult): string[] {
  const counts = Object.hasOwn(result.counts, name) ? result.counts[name] : undefined;
  if (counts === undefined) {
    return ['', `${name}: does not select this page (${selectsText(file.items[name]?.match)})`];
  }
  const failure = result.failures.find(({ rule }) => rule === name);
  if (failure !== undefined) return ['', `${name}: failed: ${failure.message}`];
  const rows = result.rows.filter(({ rule }) => rule === name);
  const rejected = result.rejected.filter(({ rule }) => rule === name);
  const more = rejected.length > 0 ? `, ${rejected.length} rejected` : '';
  const lines = ['', `${name}: ${amount(rows.length, 'row')}${more}`];
  const all = [...rows, ...rejected];
  const names = Object.keys(fieldsOfRule(file.items[name] ?? {}));
  const width = Math.max(0, ...names.map((field) => field.length));
  for (const field of names) {
    const values = all.map(({ values }) => values[field]).filter((value) => value !== null);
    const isWrong = (result.counts[`${name}.${field}`]?.wrong ?? 0) > 0;
    const example = values.length === 0 ? 'nothing' : shortened(JSON.stringify(values[0]));
    const wrong = isWrong ? '; some are not of the type' : '';
    lines.push(`  ${field.padEnd(width)}  ${values.length} of ${all.length}  ${example}${wrong}`);
  }
  for (const { values } of rows.slice(0, rowsShown)) lines.push(`  ${JSON.stringify(values)}`);
  for (const { why, values } of rejected.slice(0, rowsShown)) {
    lines.push(`  rejected: ${why}: ${JSON.stringify(values)}`);
  }
  if (rows.length > rowsShown)
    lines.push(`  … ${amount(rows.length - rowsShown, 'more row')}; --json prints all`);
  return lines;
}

function shortened(text: string | undefined): string {
  if (text === undefined) return '';
  return text.length > valueChars ? `${text.slice(0, valueChars)}…` : text;
}
