/** Verbs of operators: add, recrawl, list, pause, resume, cancel, buried, replay. Source:
 *  PROTOCOL.md [C-1]..[C-7], [C-20], [C-30], [C-31]. */
import { basename } from 'node:path';
import { type CrawlSpec, crawlSpecSchema } from '../../../shared/crawl.ts';
import { CommandError, ConfigError } from '../../../shared/errors.ts';
import type { Replies } from '../../../shared/protocol.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Services } from '../services.ts';
import type { Session } from '../session.ts';

export async function add(
  services: Services,
  _session: Session,
  request: Requests['crawl.add'],
): Promise<Replies['crawl.add']> {
  return await addSeeds(services, request);
}

/** Errors: CommandError E_DRAINING, E_BAD_REQUEST, E_LIMIT. */
export async function addSeeds(
  services: Services,
  { crawl: name, seeds, spec, priority }: Omit<Requests['crawl.add'], 'verb' | 'id'>,
): Promise<Replies['crawl.add']> {
  const whole = await readiedSpec(services, name, services.defaultSpec, spec);
  return await services.frontier.seed(name, whole, seeds, priority);
}

export async function recrawl(
  services: Services,
  _session: Session,
  { crawl: name, like, spec, urls }: Requests['crawl.recrawl'],
): Promise<Replies['crawl.recrawl']> {
  const { frontier, defaultSpec } = services;
  const base = like === undefined ? defaultSpec : frontier.crawls.named(like).spec;
  const whole = await readiedSpec(services, name, base, spec);
  return await frontier.again(name, whole, urls);
}

/** The spec of a crawl that may be made now: there is room for it, and for its files. One that is
 *  there may not be given another. Errors: CommandError E_DRAINING, E_BAD_REQUEST, E_LIMIT. */
async function readiedSpec(
  { frontier, results, isDraining }: Services,
  name: string,
  base: CrawlSpec,
  spec: Requests['crawl.add']['spec'],
): Promise<CrawlSpec> {
  if (isDraining()) throw new CommandError('E_DRAINING', 'the master is stopping; try again');
  refuseSpecOfKnown(frontier, name, spec);
  const whole = wholeSpec(base, spec);
  if (!frontier.crawls.has(name)) {
    frontier.crawls.refuseOneMore(whole);
    await prepare(results, name);
    // Somebody else may have made it meanwhile.
    refuseSpecOfKnown(frontier, name, spec);
  }
  return whole;
}

function wholeSpec(defaults: CrawlSpec, part: Requests['crawl.add']['spec']): CrawlSpec {
  const inner = (name: 'fetch' | 'traps') => {
    const given = part?.[name];
    return typeof given === 'object' ? { ...defaults[name], ...given } : (given ?? defaults[name]);
  };
  const parsed = crawlSpecSchema.safeParse({
    ...defaults,
    ...part,
    fetch: inner('fetch'),
    traps: inner('traps'),
  });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new CommandError('E_BAD_REQUEST', `spec: ${issue?.path.join('.')} ${issue?.message}`);
}

function refuseSpecOfKnown(
  { crawls }: Services['frontier'],
  name: string,
  spec: Requests['crawl.add']['spec'],
): void {
  if (spec === undefined || !crawls.has(name)) return;
  throw new CommandError(
    'E_BAD_REQUEST',
    `the crawl "${name}" is there already: its options cannot be changed, only seeds added`,
  );
}

async function prepare(results: Services['results'], name: string): Promise<void> {
  try {
    await results.prepare(name);
  } catch (error) {
    if (error instanceof ConfigError) throw new CommandError('E_BAD_REQUEST', error.message);
    throw error;
  }
}

export function list({ frontier, sessions }: Services): Replies['crawl.list'] {
  return {
    crawls: [...frontier.crawls].map((crawl) => crawl.status()),
    sessions: sessions().map(({ name, role, leases, proxies }) => ({
      name,
      role,
      leases: leases.size,
      ...(proxies.length > 0 && { proxies }),
    })),
  };
}

export async function pause(
  { frontier }: Services,
  _session: Session,
  { crawl: name }: Requests['crawl.pause'],
): Promise<Replies['crawl.pause']> {
  const crawl = frontier.crawls.named(name);
  await frontier.setPaused(crawl, true);
  return { state: crawl.status().state };
}

export async function resume(
  { frontier, results, onResumed }: Services,
  _session: Session,
  { crawl: name, newFiles = false }: Requests['crawl.resume'],
): Promise<Replies['crawl.resume']> {
  const crawl = frontier.crawls.named(name);
  // Its files may have been moved while it was paused: then it is held now.
  if (crawl.isOpen) await results.confirm(crawl);
  const wasHeld = crawl.held !== undefined;
  const { begun, cutBytes } = await results.resume(crawl, newFiles);
  frontier.release(crawl);
  await frontier.setPaused(crawl, false);
  if (wasHeld) onResumed(crawl, { begun, cutBytes });
  const { state } = crawl.status();
  if (begun.length === 0) return { state };
  const told = begun.map(({ file, bytes, lines, movedTo }) => ({
    file,
    bytes,
    ...(lines !== undefined && { lines }),
    ...(movedTo !== undefined && { movedTo: basename(movedTo) }),
  }));
  return { state, begun: told };
}

export async function cancel(
  { frontier, results }: Services,
  _session: Session,
  { crawl: name }: Requests['crawl.cancel'],
): Promise<Replies['crawl.cancel']> {
  const crawl = frontier.crawls.named(name);
  await frontier.cancel(crawl);
  await results.giveUp(crawl);
  return {};
}

export function buried(
  { frontier }: Services,
  _session: Session,
  { crawl, after, limit }: Requests['crawl.buried'],
): Replies['crawl.buried'] {
  return frontier.buried.list(frontier.crawls.named(crawl), after, limit);
}

export async function replay(
  { frontier }: Services,
  _session: Session,
  { crawl, url }: Requests['crawl.replay'],
): Promise<Replies['crawl.replay']> {
  return { replayed: await frontier.buried.replay(frontier.crawls.named(crawl), url) };
}
