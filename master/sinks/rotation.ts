/**
 * Rotation: a sink closes its targets under a date, and begins new ones. At any time the store
 * says where it is, so that a start ends what a crash cut off:
 *
 *     the date is on record --> the sink closes its targets --> one commit: the new mark, the part,
 *                                                               and the date is gone
 *
 * Nothing is written in between.
 */
import type { ConfigError } from '../../shared/errors.ts';
import { encodePart, partKey, partsOf, rotatingDate, rotatingKey } from '../store/parts.ts';
import { cursorKey, encodeCursor } from '../store/records.ts';
import type { Change, Store } from '../store/store.ts';
import type { Outlet } from './outlet.ts';
import type { ClosedTarget, SinkCrawl } from './sink.ts';

type RotatedCrawl = SinkCrawl & { readonly id: number; readonly isOpen: boolean };

type RotationOptions = {
  readonly store: Store;
  readonly commits: { written(changes: Change[]): Promise<void> };
};

/** The targets that were closed, and why others were not. */
export type Rotated = {
  readonly closed: readonly ClosedTarget[];
  readonly fault: ConfigError | undefined;
};

const nothing: Rotated = { closed: [], fault: undefined };

/** Closes the targets of a sink that is idle. Nothing: they are empty.
 *  @throws HeldError a target is not what the sink left, so none was closed · ConfigError it cannot
 *  be used */
export async function rotate(
  crawl: RotatedCrawl,
  outlet: Outlet,
  options: RotationOptions,
): Promise<Rotated> {
  const { kind, mark } = outlet;
  const { store, commits } = options;
  const after = partsOf(store, crawl.id, kind.name).at(-1)?.date;
  // As at a resume, what was written to a held one and does not count is cut.
  const how = { after, isOver: !crawl.isOpen, isExact: outlet.isWriting };
  const date = await kind.rotation?.plan(crawl, mark, how);
  if (date === undefined) return nothing;
  const key = rotatingKey(crawl.id, kind.name);
  await commits.written([{ table: 'meta', key, value: Buffer.from(date, 'latin1') }]);
  return await endRotation(crawl, outlet, options);
}

/** Goes on from what is on record, which may be nothing. @throws ConfigError the disk fails */
export async function endRotation(
  crawl: RotatedCrawl,
  outlet: Outlet,
  { store, commits }: RotationOptions,
): Promise<Rotated> {
  const { kind, commit } = outlet;
  const date = rotatingDate(store, crawl.id, kind.name);
  if (date === undefined || kind.rotation === undefined) return nothing;
  const { mark, part, closed, fault } = await kind.rotation.close(crawl, outlet.mark, date);
  outlet.mark = mark;
  const changes: Change[] = [
    { table: 'meta', key: rotatingKey(crawl.id, kind.name), value: undefined },
  ];
  if (closed.length > 0) {
    const cursor = encodeCursor({ commit, mark });
    changes.push(
      { table: 'meta', key: cursorKey(crawl.id, kind.name), value: cursor },
      { table: 'meta', key: partKey(crawl.id, kind.name, date), value: encodePart(part) },
    );
  }
  await commits.written(changes);
  return { closed, fault };
}
