/**
 * How a URL stands that is not open, in words: from its line, its row among the URLs that were
 * given up, or the decision that its crawl would take now. Reads nothing but what `UrlLook` looks
 * up.
 */
import { amount } from '../../shared/amount.ts';
import { errorText } from '../../shared/protocol.ts';
import type { UrlFate } from '../../shared/url-fate.ts';
import {
  isSkipReason,
  type LookedCrawl,
  type SeenAs,
  skippedCountedMax,
  type UrlLook,
} from '../frontier/look/url-look.ts';
import type { BuriedRecord } from '../store/records.ts';
import type { SearchedFile } from './line-search.ts';
import type { ResultLine, UrlLines } from './url-lines.ts';

/** A longer line is returned without its images. */
const lineCharsMax = 64 << 10;
/** The rule of its host that leaves a URL out, which may change. */
const rulesOfHosts: readonly string[] = ['robots'];

type Found = {
  readonly lines: UrlLines;
  readonly missing: readonly SearchedFile[];
  /** Its tasks that are open, of any kind. */
  readonly open: readonly unknown[];
};
type Line = { readonly line: ResultLine; readonly text: string };

export class FateWriter {
  readonly #look: UrlLook;
  readonly #crawl: LookedCrawl;
  readonly #url: URL;
  readonly #seen: SeenAs;
  readonly #found: Found;

  constructor(look: UrlLook, crawl: LookedCrawl, url: URL, seen: SeenAs, found: Found) {
    this.#look = look;
    this.#crawl = crawl;
    this.#url = url;
    this.#seen = seen;
    this.#found = found;
  }

  /** The last line of the page says that every attempt failed. */
  get isGivenUp(): boolean {
    const { error, finalUrl } = this.#found.lines.page?.line ?? {};
    return error !== undefined && finalUrl === undefined;
  }

  /** As a page; `buried`: its row, if it was given up. None: it is known as something else. */
  page(buried: BuriedRecord | undefined): UrlFate[] {
    const { lines } = this.#found;
    if (buried !== undefined) return [this.#buried(buried)];
    if (lines.page !== undefined) return [this.#done(lines.page)];
    if (lines.finalUrl !== undefined) return [this.#alias(lines.finalUrl)];
    if (this.#seen.page) return [this.#gone()];
    if (this.#seen.skipped || lines.skipped !== undefined) return [this.#skipped(lines.skipped)];
    return this.isSitemap || this.#isDownload || this.#isOpen ? [] : [this.#unknown()];
  }

  get #isOpen(): boolean {
    return this.#found.open.length > 0;
  }

  /** A cancelled crawl only has the line of it. */
  get isSitemap(): boolean {
    return this.#seen.sitemap || this.#found.lines.sitemap !== undefined;
  }

  get #isDownload(): boolean {
    return this.#seen.download || this.#found.lines.download !== undefined;
  }

  sitemap(): UrlFate {
    const { sitemap } = this.#found.lines;
    if (sitemap !== undefined) return { ...this.#done(sitemap), kind: 'sitemap' };
    const text = this.#found.missing.includes('pages')
      ? 'it was read as a sitemap; its line is in a file that is not there'
      : 'it was tried as a sitemap, because sites have one there, and there is none';
    return { state: 'gone', kind: 'sitemap', text: [text] };
  }

  /** As an image that was to be downloaded; `buried`: its row, if it was given up. None: it was
   *  not to be. */
  image(buried: BuriedRecord | undefined): UrlFate[] {
    if (!this.#isDownload) return [];
    if (buried !== undefined) return [{ ...this.#buried(buried), kind: 'image' }];
    const { download } = this.#found.lines;
    if (download !== undefined) {
      const fate = this.#done(download);
      return [{ ...fate, kind: 'image', text: [imageText(download.line), ...fate.text.slice(1)] }];
    }
    const where = this.#found.missing.includes('downloads')
      ? 'in a file that is not there any more'
      : 'in a file that was moved or packed';
    return [
      {
        state: 'gone',
        kind: 'image',
        text: [`it was to be downloaded, and is done; its line is ${where}`],
      },
    ];
  }

  /** Its other roles. */
  addNotes(fates: readonly UrlFate[]): void {
    const [first] = fates;
    if (first === undefined) return;
    const { pathname, search } = this.#url;
    if (this.#seen.image) {
      first.text.push('it is an image of some page: see img_src.txt');
    }
    if (pathname === '/robots.txt' && search === '') {
      first.text.push('as the robots.txt of its host it is read without being a URL of the crawl');
    }
  }

  #buried({ url: _, from, kind, message, attempts, depth, priority }: BuriedRecord): UrlFate {
    const source = this.#look.sourceOf(this.#crawl, from);
    const text = [
      `it was given up after ${amount(attempts, 'attempt')}: ${errorText({ kind, message })}`,
      `buried ${this.#crawl.name} --replay --url ${this.#url.href} tries it again`,
    ];
    return {
      state: 'buried',
      text,
      depth,
      ...(priority !== 0 && { priority }),
      attempts,
      attemptsMax: this.#crawl.spec.attemptsMax,
      error: { kind, message },
      ...(source !== undefined && { from: source }),
    };
  }

  #done({ line, text }: Line): UrlFate {
    const fate: UrlFate = { state: 'done', text: [doneText(line)], ...fieldsOf(line), line: text };
    if (line.error?.attempts !== undefined) fate.attempts = line.error.attempts;
    const when = `at ${line['at']}`;
    const { slave } = line;
    fate.text.push(typeof slave === 'string' ? `${when} by slave ${slave}` : when);
    const excluded = String(line['excluded']);
    if (rulesOfHosts.includes(excluded)) {
      const now = this.#look.judgeFetch(this.#crawl, this.#url);
      const isStill = now?.rule.by === excluded;
      if (now !== undefined && isStill) fate.rule = now.rule;
      fate.text.push(isStill ? `it is ${now.text}` : 'robots.txt as it is now would allow it');
    }
    return withShortLine(fate, line);
  }

  /** It is where another URL led to. */
  #alias({ line, text }: Line): UrlFate {
    const fate: UrlFate = {
      state: 'done',
      text: [`${line.url} redirects to it, and counts under its name: ${doneText(line)}`],
      ...fieldsOf(line),
      by: { url: line.url, field: 'finalUrl' },
      line: text,
    };
    return withShortLine(fate, line);
  }

  /** It was admitted, and is nowhere. */
  #gone(): UrlFate {
    const text = this.#found.missing.includes('pages')
      ? 'it was admitted and is done; its line is in a file that is not there any more'
      : 'it was admitted and is done, without a line of its own: either it differs by a session id ' +
        'alone from a URL that was taken, or its line is in a file that was moved or packed';
    return { state: 'gone', text: [text] };
  }

  #skipped(listed: Line | undefined): UrlFate {
    const { line } = listed ?? {};
    const depth = depthOf(line);
    const reason = line?.['skipped'];
    const now = this.#look.judge(this.#crawl, this.#url, depth);
    const then = isSkipReason(reason) ? this.#look.skipped(reason, this.#crawl, this.#url) : now;
    const text = [
      then === undefined
        ? 'a link to it was skipped, for its depth or as one of too many similar URLs'
        : `a link to it was skipped: it is ${then.text}`,
    ];
    if (line === undefined) {
      text.push('it is not listed: skipped.jsonl has the first 1,000 links of each reason');
    } else if (now === undefined) text.push('a link of that depth would be taken now');
    return {
      state: 'skipped',
      text,
      ...fieldsOf(line),
      ...(then !== undefined && { rule: then.rule }),
      ...(listed !== undefined && { line: listed.text }),
    };
  }

  #unknown(): UrlFate {
    const crawl = this.#crawl;
    const { canonical, redirectedTo } = this.#found.lines;
    const now = this.#look.judge(crawl, this.#url);
    const nobody = `nobody has offered it${this.#seen.image ? ' as a page' : ''}`;
    const fate: UrlFate = {
      state: 'unknown',
      text: [],
      ...(now !== undefined && { rule: now.rule }),
    };
    if (crawl.state === 'cancelled') {
      fate.text.push(
        'the crawl was cancelled and has forgotten what it knew; no file has its line',
      );
    } else if (now === undefined) fate.text.push(`${nobody}: no page, sitemap or seed`);
    else fate.text.push(`${nobody}, and it would be ${now.text}`);
    const named = canonical ?? redirectedTo;
    if (named !== undefined) {
      const field = canonical === undefined ? 'redirectedTo' : 'canonical';
      fate.by = { url: named.line.url, field };
      fate.text.push(
        field === 'canonical'
          ? `${named.line.url} says that it is its canonical URL, which is not fetched for that`
          : `${named.line.url} redirects to it`,
      );
    }
    if (crawl.isOpen && now === undefined) {
      fate.text.push('pages that are not fetched yet may still lead to it');
    }
    const { depth = 0 } = crawl.counters.skipped;
    if (now === undefined && depth > skippedCountedMax) {
      fate.text.push(`or only links deeper than --max-depth ${crawl.spec.maxDepth} do`);
    }
    return fate;
  }
}

/** The fate of a URL, by its line. */
function doneText(line: ResultLine): string {
  const { sitemap, error, redirectedTo, images, canonical, excluded, status, type } = line;
  if (error !== undefined) {
    const { attempts = 1 } = error;
    const what = sitemap === undefined ? 'it failed' : 'it is a sitemap, and failed';
    return `${what} after ${amount(attempts, 'attempt')}: ${errorText(error)}`;
  }
  switch (excluded) {
    case 'robots':
      return 'it was left out: robots.txt disallowed it';
    case 'scope':
      return 'it was left out: options that were set since do not take it';
    case 'noindex':
      return 'it was fetched and left out: it says noindex, see --obey';
    case 'canonical': {
      const name = canonical ?? line.finalUrl;
      return `it was fetched and left out: a page of the canonical URL ${name} was written before`;
    }
    default:
  }
  if (redirectedTo !== undefined) return `it redirects to ${redirectedTo}`;
  if (sitemap !== undefined) {
    const { kind: what, urls, images: count } = sitemap;
    const listed = `${what}, ${amount(urls, 'URL')}, ${amount(count, 'image')}`;
    return `it was read as a sitemap: ${listed}`;
  }
  const answer = line['unchanged'] === true ? 'unchanged' : `status ${status}`;
  if (!Array.isArray(images))
    return `it was fetched, and it is not a page: ${answer}, ${type ?? 'no type'}`;
  const { finalUrl = line.url } = line;
  const moved = finalUrl === line.url ? '' : `, redirected to ${finalUrl}`;
  const links = amount(Number(line['links'] ?? 0), 'link');
  return `it was fetched: ${answer}${moved}, ${links}, ${amount(images.length, 'image')}`;
}

/** The same of an image. */
function imageText(line: ResultLine): string {
  const { error, excluded, file, entry, redirectedTo, sha256, status } = line;
  if (error !== undefined || redirectedTo !== undefined) return doneText(line);
  switch (excluded) {
    case undefined:
      break;
    case 'robots':
    case 'scope':
      return doneText(line);
    case 'opt-out':
      return 'it is not kept: its site opts out';
    case 'similar':
      return 'it is not kept: another image that looks the same is';
    default:
      return `it is not kept: the filter of its ${excluded} leaves it out`;
  }
  if (file !== undefined) return `it is kept: ${file}${entry === undefined ? '' : `, ${entry}`}`;
  const where = sha256 === undefined ? '' : ', and is in the archive';
  return `it was fetched: status ${status}${where}`;
}

function fieldsOf(line: ResultLine | undefined): Pick<UrlFate, 'depth' | 'from'> {
  const from = line?.['from'];
  const depth = depthOf(line);
  return { ...(depth !== undefined && { depth }), ...(typeof from === 'string' && { from }) };
}

function depthOf(line: ResultLine | undefined): number | undefined {
  const depth = line?.['depth'];
  return typeof depth === 'number' ? depth : undefined;
}

/** A page may have 50,000 images. */
function withShortLine(fate: UrlFate, line: ResultLine): UrlFate {
  if ((fate.line?.length ?? 0) <= lineCharsMax) return fate;
  const { images: _, ...others } = line;
  const text = JSON.stringify(others);
  if (text.length <= lineCharsMax) return { ...fate, line: text };
  const { line: __, ...rest } = fate;
  return rest;
}
