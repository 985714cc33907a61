/** The most frequent messages of a raw peer in the role of a slave. */
import assert from 'node:assert/strict';
import { pack } from './msgpack.ts';
import type { Answer, Message, RawPeer } from './raw-peer.ts';

export type Task = {
  readonly task: Buffer;
  readonly lease: number;
  readonly crawl: number;
  readonly url: string;
  readonly depth: number;
  readonly attempt: number;
  readonly open?: boolean;
};

/** The tasks of the next `task.push`. */
export async function pushed(peer: RawPeer): Promise<Task[]> {
  return (await peer.push('task.push'))['tasks'] as Task[];
}

/** The pushes of tasks that a test has not read yet. */
export function unreadPushes({ unread }: RawPeer): readonly Message[] {
  return unread.filter(({ verb }) => verb === 'task.push');
}

/** No task is on the way: all that the master had to say by now has been read. */
export async function nothingPushed(peer: RawPeer): Promise<void> {
  // The dispatcher runs after the requests of a turn, so the second answer comes after its pushes.
  for (let i = 0; i < 3; i++) await peer.sync();
  assert.deepEqual(unreadPushes(peer), []);
}

/** The next task; the peer's credit has to be 1. */
export async function nextTask(peer: RawPeer): Promise<Task> {
  const tasks = await pushed(peer);
  if (tasks.length !== 1) throw new Error(`${tasks.length} tasks at once`);
  return tasks[0] as Task;
}

export const page = (url: string): Message => ({
  finalUrl: url,
  status: 200,
  type: 'text/html',
  bytes: 100,
  ms: 1,
});

/** Reports a page with links and images; returns the reply. */
export function report(
  peer: RawPeer,
  { task, lease, url }: Task,
  found: { links?: readonly string[]; images?: readonly Message[]; result?: Message } = {},
): Promise<Answer> {
  const links = Buffer.from((found.links ?? []).join('\n'), 'latin1');
  const result = pack(found.result ?? page(url));
  const images = pack(found.images ?? []);
  return peer.request('task.report', { task, lease, result, images, links });
}

export const timeout = { kind: 'timeout', message: 'no answer' };

/** Releases a task, with an error if there is one. */
export function release(
  peer: RawPeer,
  { task, lease }: Task,
  error?: Message,
  more: Message = {},
): Promise<Answer> {
  return peer.request('task.release', { task, lease, ...(error ? { error } : {}), ...more });
}
