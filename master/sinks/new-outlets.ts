/** The outlets of a crawl whose outputs have changed: those of before where they can go on. */
import { isDeepStrictEqual } from 'node:util';
import { isSameTarget, type NamedOutput } from '../../shared/outputs.ts';
import { cursorKey, encodeCursor } from '../store/records.ts';
import type { Change } from '../store/store.ts';
import { Outlet } from './outlet.ts';
import type { SinkKind } from './sink.ts';

/** Of the crawl: `lastCommit` is behind all records so far. */
type Numbers = { readonly id: number; readonly lastCommit?: number };

/** The outlets of outputs that are no more. */
export function leaving(
  before: ReadonlyMap<NamedOutput, Outlet | undefined>,
  outputs: readonly NamedOutput[],
): Outlet[] {
  const stays = (old: NamedOutput) =>
    outputs.some((one) => one.name === old.name && isSameTarget(one, old));
  return [...before].flatMap(([old, outlet]) => (outlet && !stays(old) ? [outlet] : []));
}

/** Closes those that are not kept. Returns the outlets in the order of the outputs, and the changes
 *  of their cursors on record. */
export async function outletsFor(
  { id, lastCommit = 0 }: Numbers,
  outputs: readonly NamedOutput[],
  before: ReadonlyMap<NamedOutput, Outlet | undefined>,
  make: (output: NamedOutput) => SinkKind,
): Promise<{ readonly made: readonly Outlet[]; readonly changes: Change[] }> {
  const keptOnes = new Set<Outlet>();
  const changes: Change[] = [];
  const made = outputs.map((output) => {
    const [old, outlet] = [...before].find(([one]) => one.name === output.name) ?? [];
    if (old !== undefined && outlet !== undefined && isSameTarget(old, output)) {
      keptOnes.add(outlet);
      if (isDeepStrictEqual(old, output)) return outlet;
      return new Outlet(make(output), { commit: outlet.commit, mark: outlet.mark });
    }
    const cursor = { commit: lastCommit, mark: undefined };
    changes.push({ table: 'meta', key: cursorKey(id, output.name), value: encodeCursor(cursor) });
    return new Outlet(make(output), cursor);
  });
  for (const outlet of before.values()) {
    if (outlet === undefined || made.includes(outlet)) continue;
    await outlet.close();
    if (keptOnes.has(outlet) || made.some(({ kind }) => kind.name === outlet.kind.name)) continue;
    changes.push({ table: 'meta', key: cursorKey(id, outlet.kind.name), value: undefined });
  }
  return { made, changes };
}
