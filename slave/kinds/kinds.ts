/**
 * The kinds of tasks that this slave knows, by the names that PROTOCOL.md gives them (`task.push`).
 * Nothing else of the slave lists or compares kinds.
 */
import type { TaskKind } from '../../shared/protocol.ts';
import type { Kind } from './kind.ts';
import { page } from './page.ts';
import { robots } from './robots.ts';
import { sitemap } from './sitemap.ts';

const all = { page, robots, sitemap } satisfies Record<TaskKind, Kind>;
const kinds = new Map<string, Kind>(Object.entries(all));

/** Undefined for a kind that only a newer master knows. A task that names none is a page. */
export function kindOf({ kind = 'page' }: { readonly kind?: string }): Kind | undefined {
  return kinds.get(kind);
}
