/**
 * The items of a report, off the wire. Their rows stay as they came: thousands a second pass
 * through the master, and only sinks look into them. So they are checked here without being built.
 * Source: PROTOCOL.md [T-81] [T-82].
 */
import { unpackValue } from '../../shared/frame.ts';
import { isPageItems, isRuleName, rowLevelsMax } from '../../shared/page-items.ts';
import { assertPlain, PlainWalk } from '../../shared/plain-value.ts';
import { limits } from '../../shared/protocol.ts';
import { type FoundItems, type PackedRows, packedRows } from '../store/result-rows.ts';
import { unpack } from './request.ts';

/** @throws CommandError E_BAD_REQUEST they are no items */
export function readItems(packed: Uint8Array): FoundItems {
  const found = quickly(packed);
  if (found !== undefined) return found;
  const items = unpack('task.report', 'items', packed);
  return { ...items, rows: packedRows(items.rows) };
}

/** Sure of its yes, not of its no: undefined is for `unpack` to judge. */
function quickly(packed: Uint8Array): FoundItems | undefined {
  try {
    assertPlain(packed, limits.messageValuesMax);
  } catch {
    return undefined;
  }
  const walk = new PlainWalk(packed);
  if (walk.map() !== 4) return undefined;
  let rows: PackedRows | undefined;
  const others: Record<string, unknown> = { rows: [] };
  for (let i = 0; i < 4; i++) {
    const name = walk.ascii();
    const { at } = walk;
    if (name === 'rows' && rows === undefined) {
      const count = countRows(walk);
      rows = count === undefined ? undefined : { count, bytes: packed.subarray(at, walk.at) };
      if (rows === undefined) return undefined;
    } else if (name !== undefined && !(name in others) && walk.json(limits.messageDepthMax)) {
      others[name] = unpackValue(packed.subarray(at, walk.at));
    } else return undefined;
  }
  if (rows === undefined || !isPageItems(others)) return undefined;
  const { rejected, failures, counts } = others;
  if (rows.count + rejected.length > limits.itemRowsMax) return undefined;
  return { rows, rejected, failures, counts };
}

/** Steps over the rows. Undefined: one of them is not a rule's name and a map of JSON. */
function countRows(walk: PlainWalk): number | undefined {
  const count = walk.list();
  if (count === undefined) return undefined;
  for (let i = 0; i < count; i++) {
    if (walk.list() !== 2 || !isRuleName(walk.ascii())) return undefined;
    const { at } = walk;
    if (walk.map() === undefined) return undefined;
    walk.at = at;
    if (!walk.json(rowLevelsMax)) return undefined;
  }
  return count;
}
