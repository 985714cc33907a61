/**
 * Searches the open tasks of a host for one URL, in slices: the store orders tasks by their turn,
 * not by their URLs, and a host may have millions.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { decodeTask, type TaskRecord } from '../store/records.ts';
import type { Row, Rows } from '../store/store.ts';
import { merged, unsortedOf } from '../store/unsorted-rows.ts';

/** Rows read at once. */
const batchRows = 1_000;

type Search = {
  /** One for each kind of task that the URL is; `before`: rows before it. */
  readonly tasks: readonly {
    readonly key: Buffer;
    readonly record: TaskRecord;
    readonly before: number;
  }[];
  /** The last row that was looked at, and their number; undefined: there are no more. */
  readonly next: { readonly key: Buffer; readonly rows: number } | undefined;
};

/** `after`: what the search before returned as `next`. */
export async function searchTasks(
  store: Rows,
  url: string,
  range: { readonly from: Uint8Array; readonly to: Uint8Array },
  options: {
    readonly after?: Search['next'] | undefined;
    readonly rowsMax: number;
    /** It ends when it has found so many. */
    readonly tasksMax: number;
  },
): Promise<Search> {
  const { after, rowsMax, tasksMax } = options;
  const tasks: { key: Buffer; record: TaskRecord; before: number }[] = [];
  const text = Buffer.from(url, 'latin1');
  let { key: from, rows } = after ?? { key: Buffer.from(range.from), rows: 0 };
  // Read first: a task may move from here to the others meanwhile.
  const unsorted = unsortedOf(store, range.from).filter(({ key }) => {
    return after === undefined || key.compare(after.key) > 0;
  });
  for (let left = rowsMax, isFirst = after === undefined; left > 0; isFirst = false) {
    const limit = Math.min(batchRows, left);
    const found = store.range('tasks', { from, after: !isFirst, to: range.to, limit });
    const last = found.at(-1);
    const isAll = last === undefined || found.length < limit;
    const passed = isAll ? unsorted.length : countUpTo(unsorted, last.key);
    for (const { key, value } of merged(unsorted.splice(0, passed), found)) {
      // The URL is the end of a row: most are passed over without being decoded.
      if (endsWith(value, text)) {
        const record = decodeTask(value);
        if (record.url === url) tasks.push({ key, record, before: rows });
      }
      rows++;
    }
    if (isAll || tasks.length >= tasksMax) return { tasks, next: undefined };
    from = last.key;
    left -= found.length;
    await turn();
  }
  return { tasks, next: { key: Buffer.from(from), rows } };
}

function endsWith(value: Buffer, text: Buffer): boolean {
  return value.length >= text.length && text.equals(value.subarray(value.length - text.length));
}

/** How many of the rows have keys up to this one; they are in order. */
function countUpTo(rows: readonly Row[], key: Buffer): number {
  const first = rows.findIndex((row) => row.key.compare(key) > 0);
  return first < 0 ? rows.length : first;
}
