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

/** A run that is to be asked for a key. With `merge` it is asked only for keys that the merge has
 *  moved, or only for those that it has not. */
export type Asked = { readonly run: Run; readonly merge?: RunMerge; readonly isMoved?: boolean };

/** Returns all runs that may have a key, that first which has most keys of the span. */
export function inOrder(
  runs: readonly Run[],
  merges: readonly RunMerge[],
  span: Span,
): readonly Asked[] {
  // One that is whole, but perhaps not on the disk, is in both.
  const moved = new Set(merges.map(({ target }) => target));
  const all = [...merges, ...runs.filter((run) => !moved.has(run))];
  // Oldest first: a merge has the oldest runs of its level, and stands before the rest.
  all.sort((a, b) => levelOf(b) - levelOf(a));
  let from = 0;
  const found: (Asked & { readonly keys: number })[] = [];
  for (const one of all) {
    const sources = one instanceof RunMerge ? one.sources : [one];
    const merging = one instanceof RunMerge && { merge: one };
    if (merging) {
      const { target } = merging.merge;
      found.push({
        run: target,
        ...merging,
        isMoved: true,
        keys: overlap(from, target.keys, span),
      });
    }
    for (const run of sources) {
      const keys = overlap(from, run.keys, span);
      found.push({ run, ...(merging && { ...merging, isMoved: false }), keys });
      from += run.keys;
    }
  }
  found.sort((a, b) => b.keys - a.keys);
  // A key that was not moved when its sources were asked may have been moved since.
  const late = merges.map((merge) => ({ run: merge.target, merge, isMoved: false }));
  return [...found.map(({ keys: _, ...asked }) => asked), ...late];
}

/** How many of the keys from the number `from` on are in the span; negative: it is far away. */
function overlap(from: number, keys: number, span: Span): number {
  return Math.min(from + keys, span.to) - Math.max(from, span.from);
}

/** That of the sources of a merge. */
export function levelOf(one: Run | RunMerge): number {
  return one instanceof RunMerge ? one.target.level - 1 : one.level;
}
