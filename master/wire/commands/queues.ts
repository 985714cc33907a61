/** Verbs of user queues. Source: PROTOCOL.md ..[Q-4]. */
import { CommandError } from '../../../shared/errors.ts';
import { encodeValue } from '../../../shared/frame.ts';
import { limits } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import type { Requests } from '../../../shared/requests.ts';
import {
  asRawItem,
  decodeItem,
  heapBytesOfItem,
  isItemPickle,
  rawItem,
} from '../../python/pickle/item.ts';
import { pickleLimits } from '../../python/pickle/limits.ts';
import { toPlain } from '../../python/pickle/plain.ts';
import { PickleError, type PyValue } from '../../python/pickle/values.ts';
import type { Peer } from '../peer.ts';
import type { CommandPorts } from '../services.ts';

/** msgpack repeats shared parts; this limits the result. */
const plainLimits = { ...pickleLimits, weightMax: limits.queueReplyBytesMax };

export async function put(
  { queues, master }: CommandPorts,
  _peer: Peer,
  { queue: name, items, delayMs = 0 }: Requests['queue.put'],
): Promise<Replies['queue.put']> {
  if (master.isDraining)
    throw new CommandError('E_DRAINING', 'the master is stopping; try again later');
  if (items.some((item) => item.length > limits.queueItemBytesMax)) {
    throw new CommandError('E_BAD_REQUEST', 'a queue item must be at most 1 MiB');
  }
  const queue = queues.queue(name);
  if (queue.isFull) throw new CommandError('E_QUEUE_FULL', `the queue "${name}" is full`);
  const values = items.map(asRawItem);
  await (delayMs > 0 ? queue.putLater(values, delayMs) : queue.put(values));
  return { size: queue.size };
}

export async function get(
  { queues, manager, master }: CommandPorts,
  peer: Peer,
  { queue, count, waitMs, holdMs, attempts }: Requests['queue.get'],
): Promise<Replies['queue.get']> {
  if (master.isDraining)
    throw new CommandError('E_DRAINING', 'the master is stopping; try again later');
  if (peer.waitingGets >= limits.queueWaitingMax) {
    throw new CommandError('E_QUEUE_FULL', 'too many requests of this session are waiting already');
  }
  peer.waitingGets++;
  try {
    const from = queues.queue(queue);
    const items = await from.get(peer, count, waitMs, { holdMs, attempts });
    const builtMax = manager.builtBytesMax;
    const reply: Replies['queue.get']['items'][number][] = [];
    let bytes = 0;
    for (const item of items) {
      const value = forNode(item.value, builtMax);
      bytes += value.length;
      // A pickle may be longer as msgpack, which writes its shared parts out.
      if (reply.length > 0 && bytes > limits.queueReplyBytesMax) break;
      const returned = from.attemptsOf(item);
      reply.push({ id: item.id, value, ...(returned > 0 && { attempts: returned }) });
    }
    from.unget(peer, items.slice(reply.length));
    from.rest(items.slice(0, reply.length));
    return { items: reply };
  } finally {
    peer.waitingGets--;
  }
}

/** Returns an item as msgpack. A pickle that msgpack cannot hold, or that would take too much
 *  memory, is returned as its bytes. */
function forNode(value: Uint8Array, builtMax: number): Uint8Array {
  if (!isItemPickle(value)) return rawItem(value);
  if (isHeavy(value, builtMax)) return encodeValue(value);
  const decoded = decodedOf(value);
  if (decoded === undefined) return value;
  try {
    const plain = encodeValue(toPlain(decoded, plainLimits));
    return plain.length <= limits.queueReplyBytesMax ? plain : encodeValue(value);
  } catch (error) {
    if (error instanceof PickleError || error instanceof TypeError) return encodeValue(value);
    throw error;
  }
}

function isHeavy(value: Uint8Array, builtMax: number): boolean {
  try {
    return heapBytesOfItem(value) > builtMax;
  } catch (error) {
    if (error instanceof PickleError) return false;
    throw error;
  }
}

/** Returns undefined for bytes that only begin like a pickle: no Python program put them. */
function decodedOf(value: Uint8Array): PyValue | undefined {
  try {
    return decodeItem(value);
  } catch (error) {
    if (error instanceof PickleError) return undefined;
    throw error;
  }
}

export async function done(
  { queues }: CommandPorts,
  peer: Peer,
  { queue, items }: Requests['queue.done'],
): Promise<Replies['queue.done']> {
  await queues.find(queue)?.done(peer, items);
  return {};
}

export async function release(
  { queues }: CommandPorts,
  peer: Peer,
  { queue, items, delayMs }: Requests['queue.release'],
): Promise<Replies['queue.release']> {
  await queues.find(queue)?.release(peer, items, delayMs);
  return {};
}

export function size(
  { queues }: CommandPorts,
  _peer: Peer,
  { queue }: Requests['queue.size'],
): Replies['queue.size'] {
  const found = queues.find(queue);
  const delayed = found?.delayedCount ?? 0;
  return { size: found?.size ?? 0, ...(delayed > 0 && { delayed }) };
}
