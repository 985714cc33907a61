/** Verbs of operators: add, recrawl, list, pause, resume, cancel, remove, rename, rotate, set,
 *  buried, failed, replay, why, verify. Source: PROTOCOL.md [C-1]..[C-7], [C-20], [C-30], [C-31],
 *  [C-40]..[C-48], [C-70], [C-76], [C-77], [C-80]..[C-82]. */
import { basename } from 'node:path';
import { CommandError, ConfigError } from '../../../shared/errors.ts';
import type { Replies } from '../../../shared/replies.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Peer } from '../peer.ts';
import type { CommandPorts } from '../services.ts';

export async function add(
  { frontier }: CommandPorts,
  _peer: Peer,
  request: Requests['crawl.add'],
): Promise<Replies['crawl.add']> {
  return await frontier.seed(request);
}

export async function recrawl(
  { frontier }: CommandPorts,
  _peer: Peer,
  request: Requests['crawl.recrawl'],
): Promise<Replies['crawl.recrawl']> {
  return await frontier.recrawl(request);
}

export async function pause(
  { frontier }: CommandPorts,
  _peer: Peer,
  { crawl: name }: Requests['crawl.pause'],
): Promise<Replies['crawl.pause']> {
  await frontier.pause(name);
  return { state: frontier.crawls.named(name).status().state };
}

export async function resume(
  { frontier }: CommandPorts,
  _peer: Peer,
  { crawl: name, newFiles = false }: Requests['crawl.resume'],
): Promise<Replies['crawl.resume']> {
  const { begun } = await frontier.resume(name, newFiles);
  const { state } = frontier.crawls.named(name).status();
  if (begun.length === 0) return { state };
  const told = begun.map(({ file, bytes, lines, movedTo, records }) => ({
    file,
    bytes,
    ...(lines !== undefined && { lines }),
    ...(movedTo !== undefined && { movedTo: basename(movedTo) }),
    ...(records && { records }),
  }));
  return { state, begun: told };
}

export async function cancel(
  { frontier }: CommandPorts,
  _peer: Peer,
  { crawl }: Requests['crawl.cancel'],
): Promise<Replies['crawl.cancel']> {
  await frontier.cancel(crawl);
  return {};
}

export async function remove(
  { frontier, backups }: CommandPorts,
  _peer: Peer,
  { crawl, files = false }: Requests['crawl.remove'],
): Promise<Replies['crawl.remove']> {
  const { deleted, kept } = await backups.alone(() => frontier.remove(crawl, files));
  return files ? { deleted: [...deleted], kept: [...kept] } : {};
}

export async function rename(
  { frontier, backups }: CommandPorts,
  _peer: Peer,
  { crawl, to }: Requests['crawl.rename'],
): Promise<Replies['crawl.rename']> {
  await backups.alone(() => frontier.rename(crawl, to));
  return {};
}

export async function set(
  { frontier }: CommandPorts,
  _peer: Peer,
  { crawl, spec }: Requests['crawl.set'],
): Promise<Replies['crawl.set']> {
  return await frontier.change(crawl, spec);
}

export async function rotate(
  { frontier, backups }: CommandPorts,
  _peer: Peer,
  { crawl }: Requests['crawl.rotate'],
): Promise<Replies['crawl.rotate']> {
  const closed = await backups.alone(() => frontier.rotate(crawl));
  const files = closed.map(({ file, as, bytes, lines }) => ({
    file,
    as,
    bytes,
    ...(lines !== undefined && { lines }),
  }));
  return { files };
}

export function buried(
  { frontier }: CommandPorts,
  _peer: Peer,
  { crawl, after, limit }: Requests['crawl.buried'],
): Replies['crawl.buried'] {
  return frontier.crawls.buried(crawl, after, limit);
}

export async function failed(
  { frontier, failures }: CommandPorts,
  _peer: Peer,
  { crawl, after, limit, kinds }: Requests['crawl.failed'],
): Promise<Replies['crawl.failed']> {
  const wanted = { after, limit, kinds };
  return await readable(crawl, failures.page(frontier.crawls.named(crawl), wanted));
}

export async function why(
  { urls }: CommandPorts,
  _peer: Peer,
  { crawl, url, after }: Requests['crawl.why'],
): Promise<Replies['crawl.why']> {
  return await readable(crawl, urls.page(crawl, url, after));
}

export async function verify(
  { frontier, recount }: CommandPorts,
  _peer: Peer,
  { crawl }: Requests['crawl.verify'],
): Promise<Replies['crawl.verify']> {
  return await readable(crawl, recount.verify(frontier.crawls.named(crawl)));
}

/** The content of result files; a path does not leave the process. @throws CommandError */
async function readable<T>(crawl: string, reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new CommandError('E_BAD_REQUEST', `the results of "${crawl}" cannot be read`, {
      cause: error,
    });
  }
}

export async function replay(
  { frontier }: CommandPorts,
  _peer: Peer,
  { crawl, url }: Requests['crawl.replay'],
): Promise<Replies['crawl.replay']> {
  return { replayed: await frontier.replay(crawl, url) };
}
