/**
 * The list of kinds of tasks. A new kind is a module in this folder, a name in the protocol's list,
 * and an entry here.
 */
import assert from 'node:assert/strict';
import type { TaskKind } from '../../../shared/protocol.ts';
import type { TaskRecord } from '../../store/records.ts';
import { image } from './image.ts';
import type { CrawlKind, Kind, NamingSpec, WrittenLine } from './kind.ts';
import { page } from './page.ts';
import { robots } from './robots.ts';
import { sitemap } from './sitemap.ts';

/** By their names in the protocol. */
export const kinds: Readonly<Record<TaskKind, Kind>> = { page, robots, sitemap, image };

const byNumber: Kind[] = [];
for (const kind of Object.values(kinds)) byNumber[kind.number] = kind;

/** Returns the kind of a task, or of its record in the store. An unknown number counts as a
 *  page. */
export function kindOf({ kind }: Pick<TaskRecord, 'kind'>): Kind {
  return byNumber[kind] ?? page;
}

/** Returns the kind of a task that a commit ends, which belongs to a crawl. */
export function crawlKindOf(task: Pick<TaskRecord, 'kind'>): CrawlKind {
  const kind = kindOf(task);
  assert.ok(kind.owner === 'crawl', `a task of kind ${kind.name} is in no crawl`);
  return kind;
}

/** Returns the name in `seen` of a task in the store. */
export function taskName(task: Pick<TaskRecord, 'kind' | 'url'>): string {
  const kind = kindOf(task);
  return kind.owner === 'crawl' ? kind.seenName(task.url) : task.url;
}

/** Returns the names in `seen` of a URL, by the kinds of tasks that it may be. */
export function namesOfKinds(url: string): { readonly page: string; readonly sitemap: string } {
  return { page: page.seenName(url), sitemap: sitemap.seenName(url) };
}

/** Returns the names in `seen` for a line of pages.jsonl. A line that no other kind recognises is a
 *  page's. */
export function namesIn(line: WrittenLine, spec: NamingSpec): readonly string[] {
  for (const kind of Object.values(kinds)) {
    const names = kind.owner === 'host' || kind === page ? undefined : kind.namesIn(line, spec);
    if (names !== undefined) return names;
  }
  return page.namesIn(line, spec) ?? [];
}
