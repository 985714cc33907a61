/**
 * Sends what a fetch asked and got to the master, a part of a body at a time. No more than a window
 * of it is under way: the master replies to a part when it has room for more.
 * Source: PROTOCOL.md [T-100] [T-102].
 */
import { archivePartBytesMax } from '../shared/archive.ts';
import type { MasterClient } from '../shared/client.ts';
import type { Said } from '../shared/requests.ts';
import type { ArchivedExchange } from './fetch/recording.ts';
import type { Held } from './statements.ts';

type Part = Omit<Said['task.archive'], 'verb' | 'id'>;

/** Bytes under way without a reply. */
const windowBytes = 1 << 20;

/** Resolves when all parts were sent; the master has not received all of them. Rejects when the
 *  connection ends. `withinMs`: how long a part may wait for others. */
export async function sendExchanges(
  master: MasterClient,
  held: Held,
  exchanges: readonly ArchivedExchange[],
  withinMs: number,
): Promise<void> {
  let number = 0;
  let bytes = 0;
  let underWay: Promise<unknown>[] = [];
  for (const exchange of exchanges) {
    for (const part of partsOf(exchange)) {
      const { task, lease } = held;
      const reply = master.request(
        'task.archive',
        { task, lease, part: number++, ...part },
        withinMs,
      );
      // The reply to the statement that follows repeats its error.
      underWay.push(reply.catch(() => {}));
      bytes += part.body.length;
      if (bytes < windowBytes) continue;
      await Promise.all(underWay);
      underWay = [];
      bytes = 0;
    }
  }
}

function* partsOf(exchange: ArchivedExchange): Generator<Omit<Part, 'task' | 'lease' | 'part'>> {
  const { url, at, request, response, chunks, bytes, end, view } = exchange;
  const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
  for (let from = 0; from === 0 || from < bytes; from += archivePartBytesMax) {
    const to = Math.min(from + archivePartBytesMax, bytes);
    yield {
      ...(from === 0 && { head: { url, at, request, response, ...(view && { view }) } }),
      body: body?.subarray(from, to) ?? Buffer.alloc(0),
      ...(to === bytes && { end }),
    };
  }
}
