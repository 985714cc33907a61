/**
 * In which order the runs of a crawl are asked for a key. Only one has it, and each costs a look-up
 * of a microsecond or two. The Bloom filters know about when a key came, since each took those
 * after the last one's, and runs hold keys in the order in which they came, too. A wrong order
 * costs time, and never an answer: all runs are asked before a key is new.
 */
import type { Run } from '../../store/runs.ts';
import { RunMerge } from './run-merge.ts';

/** Keys of a crawl, by their numbers in the order in which they came. */
export type Span = { readonly from: number; readonly to: number };

export const allKeys: Span = { from: 0, to: Number.POSITIVE_INFINITY };

/** Returns all of these, that first which has most keys of the span. */
export function inOrder(
  runs: readonly Run[],
  merges: readonly RunMerge[],
  span: Span,
): (Run | RunMerge)[] {
  // One that is whole, but perhaps not on the disk, is in both.
  const moved = new Set(merges.map(({ target }) => target));
  const all = [...merges, ...runs.filter((run) => !moved.has(run))];
  // Oldest first: a merge has the oldest runs of its level, and stands before the rest.
  all.sort((a, b) => levelOf(b) - levelOf(a));
  let from = 0;
  const found = all.map((one) => {
    const to = from + keysIn(one);
    const keys = Math.min(to, span.to) - Math.max(from, span.from);
    from = to;
    return { one, keys };
  });
  return found.sort((a, b) => b.keys - a.keys).map(({ one }) => one);
}

/** That of the sources of a merge. */
export function levelOf(one: Run | RunMerge): number {
  return one instanceof RunMerge ? one.target.level - 1 : one.level;
}

function keysIn(one: Run | RunMerge): number {
  return one instanceof RunMerge ? one.target.keys : one.keys;
}
