/**
 * `why`: why a URL was fetched, or was not, in one crawl or in all. A running master is asked slice
 * by slice; where none runs, the data folder and the result files are read here.
 */
import { amount } from '../../../shared/amount.ts';
import { ConfigError } from '../../../shared/errors.ts';
import { limits } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import { canonicalUrl } from '../../../shared/url.ts';
import type { UrlFate } from '../../../shared/url-fate.ts';
import { visible } from '../../../shared/visible.ts';
import { StoppedMaster } from '../../inspect/stopped-master.ts';
import { crawlName, seedUrl } from '../crawl-options.ts';
import { folderFlags } from '../serve-options.ts';
import type { AskMaker, Command, Join, Values } from './asking.ts';
import { crawlNamesOf, type Folders, foldersOf } from './folders.ts';
import { Listing } from './listing.ts';

export type WhyAsk = {
  readonly verb: 'why';
  /** Canonical. */
  readonly urls: readonly string[];
  /** Undefined: all crawls. */
  readonly crawl: string | undefined;
  /** These are read; undefined: a master is asked. */
  readonly folders: Folders | undefined;
};

/** Crawls that say why they would not take a URL that none of them knows. */
const refusalsShown = 3;

export function whyCommand(
  { make }: AskMaker,
  take: (values: Values, ask: WhyAsk) => void,
): Command {
  const command = make('why', 'say why a URL was fetched, or was not; the master need not run')
    .argument('<url...>', 'URLs to explain')
    .option('--crawl <name>', 'ask only this crawl; default: all', crawlName);
  for (const option of folderFlags()) command.addOption(option);
  return command.action((texts: string[], values: Values) => {
    const crawl = values['crawl'] as string | undefined;
    take(values, { verb: 'why', urls: texts.map(urlOf), crawl, folders: foldersOf(command) });
  });
}

/** @throws ConfigError not a URL */
function urlOf(text: string): string {
  if (canonicalUrl(text) === undefined && URL.canParse(text) && text.length > limits.urlChars) {
    throw new ConfigError(
      `the URL has ${text.length} characters; links of more than ${limits.urlChars} are dropped`,
    );
  }
  return seedUrl(text, false, 'URL');
}

type Source = {
  crawls(): Promise<readonly string[]>;
  slice(crawl: string, url: string, after?: Uint8Array): Promise<Replies['crawl.why']>;
  close(): Promise<void>;
};
type Told = { readonly crawl: string; readonly fate: UrlFate };

/** Prints the answers. @throws ConfigError · AuthError · CommandError */
export async function askWhy(ask: WhyAsk, isJson: boolean, join: Join): Promise<void> {
  const source = ask.folders === undefined ? await ofMaster(join) : await ofFolders(ask.folders);
  const listing = new Listing(isJson);
  try {
    const crawls = ask.crawl === undefined ? await source.crawls() : [ask.crawl];
    for (const url of ask.urls) {
      const told: Told[] = [];
      for (const crawl of crawls) {
        for (const fate of await fatesOf(source, crawl, url)) told.push({ crawl, fate });
      }
      const entries = isJson
        ? told.map((one) => ({ text: '', answer: answerOf(url, one) }))
        : [{ text: textOf(url, told), answer: undefined }];
      listing.add(entries);
      if (!listing.isWanted) break;
    }
    listing.end('no crawls');
  } finally {
    await source.close();
  }
}

async function fatesOf(source: Source, crawl: string, url: string): Promise<readonly UrlFate[]> {
  let after: Uint8Array | undefined;
  while (true) {
    const { fates, next } = await source.slice(crawl, url, after);
    if (next === undefined) return fates;
    after = next;
  }
}

async function ofMaster(join: Join): Promise<Source> {
  const master = await join();
  return {
    crawls: () => crawlNamesOf(master),
    slice: (crawl, url, after) => {
      return master.request('crawl.why', { crawl, url, ...(after !== undefined && { after }) });
    },
    close: () => master.close(),
  };
}

async function ofFolders(folders: Folders): Promise<Source> {
  const stopped = await StoppedMaster.open(folders);
  const crawls = new Map([...stopped.crawls()].map((record) => [record.name, record]));
  return {
    crawls: () => Promise.resolve([...crawls.keys()]),
    slice: (name, url, after) => stopped.why(crawls.get(name) ?? stopped.crawl(name), url, after),
    close: () => stopped.close(),
  };
}

function answerOf(url: string, { crawl, fate: { line, ...fate } }: Told): object {
  return { url, crawl, ...fate, ...(line !== undefined && { line: JSON.parse(line) }) };
}

const words = { sitemap: 'a sitemap', image: 'an image' } as const;

/** The answers of the crawls that know it, or of some that do not. */
function textOf(url: string, told: readonly Told[]): string {
  const known = told.filter(({ fate }) => fate.state !== 'unknown');
  const own = told.filter(({ fate }) => fate.rule?.by !== 'host');
  const unknown = (own.length > 0 ? own : told).slice(0, refusalsShown);
  const shown = known.length > 0 ? known : unknown;
  const lines = shown.flatMap(({ crawl, fate }) => {
    const [first = '', ...more] = [...fate.text, ...moreOf(fate)];
    const name = fate.kind === undefined ? crawl : `${crawl}, as ${words[fate.kind]}`;
    return [`  ${name}: ${first}`, ...more.map((text) => `    ${text}`)];
  });
  const left = known.length > 0 ? 0 : told.length - shown.length;
  if (left > 0)
    lines.push(`  ${amount(left, 'other crawl')} ${left === 1 ? 'does' : 'do'} not know it`);
  if (told.length === 0) lines.push('  no crawls');
  return [url, ...lines].map((line) => visible(line)).join('\n');
}

function moreOf({ from, depth, state, line }: UrlFate): string[] {
  // That of depth 0 is no link away: a seed redirects to it, or shows it.
  const away = depth ? `, ${amount(depth, 'link')} from a seed` : '';
  const isSeed = from === undefined && depth === 0 && state !== 'skipped';
  const found = isSeed
    ? ['it is a seed']
    : from === undefined
      ? []
      : [`first found on ${from}${away}`];
  return [...found, ...(line === undefined ? [] : [shortLine(line)])];
}

/** A result line without its images, which may be many. */
function shortLine(line: string): string {
  const { images, ...others } = JSON.parse(line) as { images?: unknown };
  return JSON.stringify(Array.isArray(images) ? { ...others, images: images.length } : others);
}
