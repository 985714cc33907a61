/**
 * The kinds of tasks that this slave knows, by their names in PROTOCOL.md (`task.push`). No other
 * code of the slave lists or compares kinds.
 */
import type { TaskKind, TaskPush } from '../../shared/protocol.ts';
import { Pixels } from '../images/pixels.ts';
import { SharedFolders } from '../images/shared-folder.ts';
import { isInstalled } from '../installed.ts';
import { imageKind } from './image.ts';
import type { Kind } from './kind.ts';
import { page } from './page.ts';
import { renderedPage } from './rendered-page.ts';
import { robots } from './robots.ts';
import { ruledPage } from './ruled-page.ts';
import { sitemap } from './sitemap.ts';

/** Undefined: sharp is not installed, so images are not decoded. */
export const pixels = isInstalled('sharp') ? new Pixels() : undefined;
export const sharedFolders = new SharedFolders();
const image = imageKind(pixels, sharedFolders);
const all = { page, robots, sitemap, image: image as Kind } satisfies Record<TaskKind, Kind>;
const kinds = new Map<string, Kind>(Object.entries(all));

const ruled = {
  rules: ruledPage() as Kind,
  function: ruledPage({ isCalled: true }) as Kind,
  archive: ruledPage({ isBare: true }) as Kind,
};
const rendered = {
  page: renderedPage(page) as Kind,
  rules: renderedPage(ruled.rules) as Kind,
  function: renderedPage(ruled.function) as Kind,
  archive: ruled.archive,
};

/** Returns undefined for a kind of a newer master. A task without a kind is a page; `ruledBy`: what
 *  reads it besides, rules of its crawl or a page function (and rules), or rules alone, from an
 *  archive; `isRendered`: it is for the
 *  browser. */
export function kindOf(
  { kind = 'page' }: { readonly kind?: string },
  ruledBy?: keyof typeof ruled,
  isRendered = false,
): Kind | undefined {
  const found = kinds.get(kind);
  if (isRendered && found === page) return rendered[ruledBy ?? 'page'];
  return ruledBy !== undefined && found === page ? ruled[ruledBy] : found;
}

/** It does not wait for a slot: other tasks wait for it, or it is a trial and holds none. */
export function isUrgent(task: Pick<TaskPush, 'trial' | 'kind'>): boolean {
  return task.trial !== undefined || kindOf(task)?.isUrgent === true;
}
