/**
 * Compares the results of a crawl with the truth about its site: nothing missing, nothing extra,
 * nothing twice, no torn line.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LedgerCheck } from '../shared/ledger.ts';
import type { CrawlStatus } from '../shared/protocol.ts';
import type { Truth } from './site.ts';

/** A line of pages.jsonl. */
export type Line = {
  readonly url: string;
  readonly finalUrl: string;
  readonly status?: number;
  readonly type?: string;
  readonly charset?: string;
  readonly depth: number;
  readonly from?: string;
  readonly title?: string;
  readonly images?: readonly { src: string; alt?: string; via: string }[];
  readonly links?: number;
  readonly redirectedTo?: string;
  readonly unchanged?: boolean;
  readonly etag?: string;
  readonly lastModified?: string;
  readonly error?: { kind: string; message: string; attempts: number };
  readonly slave: string;
};

type Difference = {
  readonly missing: readonly string[];
  readonly extra: readonly string[];
  readonly twice: readonly string[];
};

/** A deviation from the truth; `what` says where to look. */
export type Violation = {
  readonly kind: 'lost' | 'duplicated' | 'wrong';
  readonly what: string;
};

export type CrawlFile = 'pages.jsonl' | 'img_src.txt' | 'skipped.jsonl';
type ItemFile = 'items.jsonl' | 'items.csv';

/** Returns the differences of two lists, in which each member should occur once. */
export function compare(found: readonly string[], truth: readonly string[]): Difference {
  const isTrue = new Set(truth);
  const isFound = new Set<string>();
  const twice: string[] = [];
  for (const item of found) {
    if (isFound.has(item)) twice.push(item);
    isFound.add(item);
  }
  return {
    missing: truth.filter((item) => !isFound.has(item)),
    extra: [...isFound].filter((item) => !isTrue.has(item)),
    twice,
  };
}

/** Returns the whole lines of a crawl's file, [] if it does not exist; `torn` is the text after
 *  them. */
export function readLines(
  folder: string,
  file: CrawlFile | ItemFile,
): { lines: string[]; torn: string } {
  const path = join(folder, file);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [''];
  return { torn: lines.at(-1) ?? '', lines: lines.slice(0, -1) };
}

/** Final URLs of the pages. */
export function pagesOf(lines: readonly Line[]): string[] {
  return lines.filter(({ images }) => images !== undefined).map(({ finalUrl }) => finalUrl);
}

/** Returns all errors in the files in `folder` and in the counters of a finished crawl, and the
 *  number of lines checked. */
export function verifyCrawl(
  folder: string,
  truth: Truth,
  status: CrawlStatus,
): { violations: Violation[]; pages: number; images: number } {
  const violations: Violation[] = [];
  const wrong = (what: string) => violations.push({ kind: 'wrong', what });
  const read = (file: CrawlFile) => {
    const { lines, torn } = readLines(folder, file);
    if (torn !== '') wrong(`${file} ends in a torn line: ${torn.slice(0, 200)}`);
    return lines;
  };
  const parsed = (file: CrawlFile) =>
    read(file).flatMap((text, i) => {
      const line = parse(text);
      if (line === undefined) wrong(`line ${i + 1} of ${file}: ${text.slice(0, 200)}`);
      return line ?? [];
    });
  const check = (what: string, found: readonly string[], wanted: readonly string[]) => {
    const { missing, extra, twice } = compare(found, wanted);
    for (const item of missing) violations.push({ kind: 'lost', what: `${what} ${item}` });
    for (const item of twice) violations.push({ kind: 'duplicated', what: `${what} ${item}` });
    for (const item of extra) wrong(`${what} that is none: ${item}`);
  };

  const once = (what: string, found: readonly string[]) => check(what, found, [...new Set(found)]);

  const lines = parsed('pages.jsonl');
  const of = (kind: Kind) => lines.filter((line) => kindOf(line) === kind);
  const urls = (kind: Kind) => all(of(kind));
  const pages = pagesOf(lines);
  const images = read('img_src.txt');
  check('page', pages, truth.pages);
  check('image', images, truth.images);
  check('missing page', urls('missing'), truth.broken);
  check('file', urls('file'), truth.files);
  const isRedirect = new Set(truth.moved);
  check(
    'redirect',
    all(lines).filter((url) => isRedirect.has(url)),
    truth.moved,
  );
  once('line of', all(lines));
  for (const line of of('other')) wrong(`line ${JSON.stringify(line)}`);
  once('skipped link', all(parsed('skipped.jsonl')));

  const counters = {
    pages: pages.length,
    images: images.length,
    failed: truth.broken.length,
    buried: 0,
    waiting: 0,
    leased: 0,
    unwritten: 0,
  };
  for (const [name, wanted] of Object.entries(counters) as [keyof typeof counters, number][]) {
    if (status[name] !== wanted) wrong(`counter ${name} is ${status[name]}, not ${wanted}`);
  }
  return { violations, pages: pages.length, images: images.length };
}

/** Returns the errors of a ledger that was recounted, and of its sums. */
export function verifyLedger(
  { name, ledger = {}, waiting }: Pick<CrawlStatus, 'name' | 'ledger' | 'waiting'>,
  check: LedgerCheck | undefined,
): Violation[] {
  const whats: string[] = [];
  let sum = 0;
  for (const [kind, row] of Object.entries(ledger)) {
    const { admitted, replayed: _, ...others } = row;
    const total = Object.values(others).reduce((a, b) => a + b, 0);
    if (total !== admitted) whats.push(`${kind}: ${total} of ${admitted} admitted`);
    for (const [column, count] of Object.entries(row)) {
      if (count < 0) whats.push(`${kind}: ${column} is ${count}`);
    }
    sum += row.waiting;
  }
  if (sum !== waiting) whats.push(`waiting is ${waiting}, by kinds ${sum}`);
  if (check?.uncounted) whats.push('there is none');
  for (const { what, ledger: said, counted } of check?.differs ?? []) {
    whats.push(`${what} is ${said}, counted ${counted}`);
  }
  whats.push(...(check?.missing ?? []));
  return whats.map((what) => ({ kind: 'wrong', what: `${name}: ledger: ${what}` }));
}

/** One row of each page, in items.jsonl and in an output. */
export const itemsSpec = {
  fetch: { items: { page: { fields: { page: { value: 'finalUrl' }, title: 'title' } } } },
  outputs: [{ kind: 'csv', target: 'items.csv', name: 'csv', records: 'items' }],
} as const;

/** Returns all errors in the rows of a finished crawl with `itemsSpec`. */
export function verifyItems(folder: string, truth: Truth): Violation[] {
  const violations: Violation[] = [];
  const read = (file: ItemFile, pageOf: (line: string) => string | undefined | []) => {
    const { lines, torn } = readLines(folder, file);
    const odd = torn === '' ? [] : [torn];
    const pages: string[] = [];
    for (const line of lines) {
      const page = pageOf(line);
      if (page === undefined) odd.push(line);
      else if (typeof page === 'string') pages.push(page);
    }
    const { missing, extra, twice } = compare(pages, truth.pages);
    const add = (kind: Violation['kind'], whats: readonly string[]) => {
      for (const what of whats) violations.push({ kind, what: `row of ${file}: ${what}` });
    };
    add('lost', missing);
    add('duplicated', twice);
    add('wrong', [...extra, ...odd.map((text) => text.slice(0, 200))]);
  };
  read('items.jsonl', (line) => (parse(line) as ItemLine | undefined)?.item?.page);
  read('items.csv', (line) => (line === header ? [] : /^([^",]+),/.exec(line)?.[1]));
  return violations;
}

/** Of the CSV file. */
const header = 'page,title';
type ItemLine = { readonly item?: { readonly page?: string } };

type Kind = 'page' | 'redirect' | 'missing' | 'file' | 'other';

function kindOf(line: Line): Kind {
  if (line.images !== undefined) return 'page';
  if (line.redirectedTo !== undefined) return 'redirect';
  if (line.error?.kind === 'status' && line.status === 404) return 'missing';
  return line.type === 'text/plain' && line.error === undefined ? 'file' : 'other';
}

function all(lines: readonly Line[]): string[] {
  return lines.map(({ url }) => url);
}

function parse(text: string): Line | undefined {
  try {
    return JSON.parse(text) as Line;
  } catch {
    return undefined;
  }
}
