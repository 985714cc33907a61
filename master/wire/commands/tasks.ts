/** Verbs of slaves. Source: PROTOCOL.md, chapter 7. */
import type { Replies } from '../../../shared/replies.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Upload } from '../../archive/uploads.ts';
import { readItems } from '../items-reader.ts';
import type { Peer } from '../peer.ts';
import { unpack } from '../request.ts';
import type { CommandPorts } from '../services.ts';

export function credit(
  _services: CommandPorts,
  peer: Peer,
  request: Requests['task.credit'],
): Replies['task.credit'] {
  const { count, slots = count, lent = 0, trials = 0, takes = 'all' } = request;
  peer.setCredit({ count, slots, lent, trials, takes });
  return {};
}

export function started(
  { frontier }: CommandPorts,
  peer: Peer,
  { lease, agoMs }: Requests['task.started'],
): Replies['task.started'] {
  frontier.started({ holder: peer, id: lease }, agoMs);
  return {};
}

export async function hop(
  { frontier }: CommandPorts,
  peer: Peer,
  { lease, url, frame }: Requests['task.hop'],
): Promise<Replies['task.hop']> {
  const { state, isTimed } = await frontier.hop({ holder: peer, id: lease }, url, frame === true);
  return isTimed ? { state, timed: true } : { state };
}

export function report(
  { frontier }: CommandPorts,
  peer: Peer,
  request: Requests['task.report'],
): Promise<Replies['task.report']> {
  const { task, lease, result, images, links, items, follow, archived } = request;
  const verb = 'task.report';
  const claim = { holder: peer, id: lease, name: task };
  const said = {
    verb,
    result: unpack(verb, 'result', result),
    images: unpack(verb, 'images', images),
    links,
    packed: { result, images },
    items: items && readItems(items),
    upload: uploadOf(peer, task, lease, archived),
    follow,
  } as const;
  peer.record.fetched(said.result.error !== undefined);
  return stateOf(frontier.report(claim, said));
}

/** The outcome of a statement about a task. No verb waits for it: that would keep the request, and
 *  what was read from the socket with it, until its links are on the disk. */
function stateOf<State>(verdict: Promise<State>): Promise<{ state: State }> {
  return verdict.then((state) => ({ state }));
}

export function robots(
  { frontier }: CommandPorts,
  peer: Peer,
  request: Requests['task.robots'],
): Promise<Replies['task.robots']> {
  const { task, lease, status, body, cacheControl, retryAfterMs, archived } = request;
  const claim = { holder: peer, id: lease, name: task };
  const upload = uploadOf(peer, task, lease, archived);
  const answer = { status, cacheControl, retryAfterMs };
  const said = { verb: 'task.robots', answer, file: body, upload } as const;
  return stateOf(frontier.report(claim, said));
}

export function sitemap(
  { frontier }: CommandPorts,
  peer: Peer,
  { task, lease, kind, urls, images, end, archived }: Requests['task.sitemap'],
): Promise<Replies['task.sitemap']> {
  const verb = 'task.sitemap';
  const claim = { holder: peer, id: lease, name: task };
  const whole = end && { ...end, result: unpack(verb, 'result', end.result) };
  const upload = uploadOf(peer, task, lease, archived);
  const part = { verb, kind, urls, images, end: whole, upload } as const;
  return stateOf(frontier.report(claim, part));
}

export function release(
  { frontier }: CommandPorts,
  peer: Peer,
  { task, lease, error, retryAfterMs, final, archived }: Requests['task.release'],
): Promise<Replies['task.release']> {
  const claim = { holder: peer, id: lease, name: task };
  if (error !== undefined) peer.record.fetched(true);
  const upload = uploadOf(peer, task, lease, archived);
  if (error === undefined) upload?.drop();
  const failed = error && { error, retryAfterMs, isFinal: final, upload };
  return stateOf(frontier.release(claim, failed, retryAfterMs));
}

/** Takes an image, whose bytes came before. [T-110] */
export async function image(
  { frontier }: CommandPorts,
  peer: Peer,
  { task, lease, result, image: packed, sent, archived }: Requests['task.image'],
): Promise<Replies['task.image']> {
  const verb = 'task.image';
  const facts = packed && unpack(verb, 'image', packed);
  const digest = facts?.sha256;
  const content =
    sent && digest ? await peer.uploads.contents.take(task, lease, digest) : undefined;
  const whole = unpack(verb, 'result', result);
  // Last, since nobody drops it after an error.
  const upload = uploadOf(peer, task, lease, archived);
  peer.record.fetched(whole.error !== undefined);
  const claim = { holder: peer, id: lease, name: task };
  return stateOf(frontier.report(claim, { verb, result: whole, facts, content, upload }));
}

/** Are the bytes of an image known? [T-111] */
export function known(
  { images }: CommandPorts,
  peer: Peer,
  { task, lease, digest }: Requests['task.known'],
): Replies['task.known'] {
  return { state: images.knows({ holder: peer, id: lease, name: task }, digest) };
}

/** Takes a part of an image. [T-112] */
export async function content(
  _services: CommandPorts,
  peer: Peer,
  request: Requests['task.content'],
): Promise<Replies['task.content']> {
  await peer.uploads.contents.add(request);
  return {};
}

/** Takes a part of what is to be archived. [T-100] */
export function archive(
  _services: CommandPorts,
  peer: Peer,
  request: Requests['task.archive'],
): Replies['task.archive'] | Promise<Replies['task.archive']> {
  return peer.uploads.add(request)?.then(() => ({})) ?? {};
}

/** Exchanges that were sent to be archived of a task; undefined: its statement does not say.
 *  [T-103] */
function uploadOf(
  { uploads }: Peer,
  task: Uint8Array,
  lease: number,
  count: number | undefined,
): Upload | undefined {
  return count === undefined ? undefined : uploads.take(task, lease, count);
}

export function extend(
  { frontier }: CommandPorts,
  peer: Peer,
  { leases }: Requests['task.extend'],
): Replies['task.extend'] {
  return { lost: frontier.extend(peer, leases) };
}

export function proxies(
  _services: CommandPorts,
  peer: Peer,
  { proxies: troubles }: Requests['proxy.state'],
): Replies['proxy.state'] {
  peer.record.setProxies(troubles);
  return {};
}

export function folders(
  _services: CommandPorts,
  peer: Peer,
  { folders: troubles }: Requests['images.state'],
): Replies['images.state'] {
  peer.record.folders = troubles;
  return {};
}
