/**
 * `status --ledger`: what became of every URL of a crawl, of a running master or from its folders.
 * `--verify` counts rows and lines again, and names the numbers that differ.
 */
import { amount } from '../../../shared/amount.ts';
import { type LedgerCheck, ledgerOutcomes } from '../../../shared/ledger.ts';
import type { CrawlStatus } from '../../../shared/protocol.ts';
import { visible } from '../../../shared/visible.ts';
import { StoppedMaster } from '../../inspect/stopped-master.ts';
import { number } from '../../machine/progress.ts';
import type { Answer } from './asking.ts';
import type { Folders } from './folders.ts';
import { table } from './table.ts';

const columns = ['admitted', 'waiting', ...ledgerOutcomes, 'replayed'] as const;

/** For a ledger that is wrong. */
const wrongCode = 1;

/** Of these crawls; `verify` counts one of them. */
export async function ledgerAnswer(
  crawls: readonly CrawlStatus[],
  answer: object,
  verify: ((crawl: string) => Promise<LedgerCheck>) | undefined,
): Promise<Answer> {
  const text = ledgerText(crawls);
  if (verify === undefined) return { text, answer };
  const checks: LedgerCheck[] = [];
  for (const { name } of crawls) checks.push(await verify(name));
  const lines = [text, '', ...checks.flatMap(checkText)];
  const isRight = checks.every(({ differs }) => differs.length === 0);
  const verified = { ...answer, verified: checks };
  return { text: lines.join('\n'), answer: verified, ...(!isRight && { exitCode: wrongCode }) };
}

/** The same from the folders of a master that does not run. @throws ConfigError */
export async function ledgerOfFolders(
  folders: Folders,
  wanted: {
    readonly verify: boolean;
    readonly crawl: string | undefined;
    readonly states: readonly string[] | undefined;
  },
): Promise<Answer> {
  const stopped = await StoppedMaster.open(folders);
  try {
    const { crawl, states, verify } = wanted;
    const records = crawl === undefined ? [...stopped.crawls()] : [stopped.crawl(crawl)];
    const statuses = records
      .map((record) => stopped.statusOf(record))
      .filter(({ state }) => states === undefined || states.includes(state));
    const check = (name: string) => stopped.verify(stopped.crawl(name));
    return await ledgerAnswer(statuses, { crawls: statuses }, verify ? check : undefined);
  } finally {
    await stopped.close();
  }
}

/** A row for each kind of task; `admitted` is the sum of what follows it, up to `dropped`. */
function ledgerText(crawls: readonly CrawlStatus[]): string {
  const head = ['crawl', 'kind', ...columns];
  const rows = crawls.flatMap(({ name, ledger }) => {
    if (ledger === undefined) return [[name, 'not counted: of an older version, or repaired']];
    return Object.entries(ledger).map(([kind, row]) => {
      return [name, kind, ...columns.map((column) => number(row[column]))];
    });
  });
  if (rows.length === 0) return 'no crawls';
  const lines = table([head, ...rows]);
  for (const { name, aliases, malformed, skipped } of crawls) {
    const others = { aliases, ...skipped, malformed };
    const shown = Object.entries(others).filter(([, count]) => count > 0);
    if (shown.length > 0)
      lines.push(`${name}: not in the ledger: ${byName(Object.fromEntries(shown))}`);
  }
  return lines.join('\n');
}

function checkText({
  crawl,
  rows,
  lines,
  differs,
  missing = [],
  moved = [],
  uncounted,
}: LedgerCheck): string[] {
  if (uncounted) return [`${crawl}: not counted: it has no ledger`];
  const counted = `${amount(rows, 'row')} and ${amount(lines, 'line')} counted`;
  const verdict = differs.length === 0 ? 'the ledger is right' : 'the ledger is wrong';
  return [
    `${crawl}: ${verdict}: ${counted}`,
    ...differs.map(({ what, ledger, counted: found }) => {
      return `  ${what}: the ledger says ${number(ledger)}, counted ${number(found)}`;
    }),
    ...missing.map((text) => `  ${text}`),
    ...movedText(moved),
  ].map((line) => visible(line));
}

function movedText(moved: readonly string[]): string[] {
  const [first] = moved;
  if (first === undefined) return [];
  const rest = moved.length > 1 ? ` and ${number(moved.length - 1)} more` : '';
  return [`  not compared: lines of ${first}${rest}, moved or packed after a rotation`];
}

/** The largest first. */
export function byName(counts: Readonly<Record<string, number>>): string {
  const entries = Object.entries(counts).sort(([, a], [, b]) => b - a);
  return entries.map(([name, count]) => `${name} ${number(count)}`).join(', ');
}
