/**
 * The kinds of tasks that this slave knows, by their names in PROTOCOL.md (`task.push`). No other
 * code of the slave lists or compares kinds.
 */
import type { TaskKind } from '../../shared/protocol.ts';
import type { Kind } from './kind.ts';
import { page } from './page.ts';
import { robots } from './robots.ts';
import { ruledPage } from './ruled-page.ts';
import { sitemap } from './sitemap.ts';

const all = { page, robots, sitemap } satisfies Record<TaskKind, Kind>;
const kinds = new Map<string, Kind>(Object.entries(all));

const ruled = { rules: ruledPage(false) as Kind, function: ruledPage(true) as Kind };

/** Returns undefined for a kind of a newer master. A task without a kind is a page; `ruledBy`: what
 *  reads it besides, rules of its crawl or a page function (and rules). */
export function kindOf(
  { kind = 'page' }: { readonly kind?: string },
  ruledBy?: keyof typeof ruled,
): Kind | undefined {
  const found = kinds.get(kind);
  return ruledBy !== undefined && found === page ? ruled[ruledBy] : found;
}
