/** `crawl.list`: the crawls of a master, open ones first, a page at a time. Source: PROTOCOL.md
 *  [C-2], [C-71]. */
import { CommandError } from '../../../shared/errors.ts';
import type { CrawlStatus } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { CrawlView } from '../../frontier/crawl/crawl-view.ts';
import type { Peer } from '../peer.ts';
import type { CommandPorts } from '../services.ts';
import { reasonCharsMax } from './sinks.ts';

const cursorBytes = 7;
/** Names of removed crawls in one list. */
const removingMax = 100;

export function list(
  { frontier, jobs, peers, rates, schedules, disk }: CommandPorts,
  _peer: Peer,
  { crawl, states, after, limit }: Requests['crawl.list'],
): Replies['crawl.list'] {
  const place = after === undefined ? undefined : placeOf(after);
  const crawls = crawl === undefined ? frontier.crawls : [frontier.crawls.named(crawl)];
  const counts: Replies['crawl.list']['counts'] = {};
  const wanted: CrawlView[] = [];
  for (const one of crawls) {
    const state = stateOf(one);
    counts[state] = (counts[state] ?? 0) + 1;
    if (states !== undefined && !states.includes(state)) continue;
    if (place === undefined || isBehind(one, place)) wanted.push(one);
  }
  wanted.sort((a, b) => (isBehind(a, b) ? 1 : -1));
  const page = wanted.slice(0, limit);
  const last = page.at(-1);
  const removing = frontier.crawls.removing(removingMax);
  return {
    ...(removing.count > 0 && { removing }),
    ...(jobs.status && { jobs: jobs.status }),
    ...(disk.shortage && { diskFull: disk.shortage }),
    crawls: page.map((one): CrawlStatus => {
      const archive = frontier.crawls.archiveOf(one.name);
      const downloads = frontier.crawls.downloadsOf(one.name);
      const failing = frontier.crawls.failingOf(one.name);
      const more = {
        ...(failing.length > 0 && { failing: failing.map(shortened) }),
        ...(archive && { archive }),
        ...(downloads && { downloads }),
        ...schedules.of(one.id),
      };
      const status = { ...one.status(), ...more };
      return { ...status, startedAt: one.startedAt, ...(one.isOpen && openOf(one, rates)) };
    }),
    counts,
    sessions: peers.sessions.map(({ name, role, leases, record: { proxies, folders } }) => ({
      name,
      role,
      leases: leases.size,
      ...(proxies.length > 0 && { proxies }),
      ...(folders.length > 0 && { folders }),
    })),
    ...(last !== undefined && page.length < wanted.length && { next: cursorOf(last) }),
  };
}

function shortened({ name, reason, ms }: NonNullable<CrawlStatus['failing']>[number]) {
  return { name, reason: reason.slice(0, reasonCharsMax), ms: Math.round(ms) };
}

/** The fields of an open crawl alone. It looks at all hosts of the crawl, so an answer serves for
 *  a second: a flood of questions delays no other peer. */
function openOf(crawl: CrawlView, rates: CommandPorts['rates']): OpenStatus {
  const now = performance.now();
  const known = openStatuses.get(crawl);
  if (known !== undefined && now - known.at < keptMs) return known.status;
  const { blocked } = crawl;
  const found = rates.of(crawl);
  const status = { ...(blocked.hosts > 0 && { blocked }), ...(found && { rates: found }) };
  openStatuses.set(crawl, { at: now, status });
  return status;
}

type OpenStatus = Pick<CrawlStatus, 'blocked' | 'rates'>;
const openStatuses = new WeakMap<CrawlView, { readonly at: number; readonly status: OpenStatus }>();
const keptMs = 1_000;

/** Its place in the order: open ones first, then as they were made. */
type Place = Pick<CrawlView, 'isOpen' | 'id'>;

function isBehind(a: Place, b: Place): boolean {
  return a.isOpen === b.isOpen ? a.id > b.id : b.isOpen;
}

function stateOf({ held, state }: CrawlView): CrawlStatus['state'] {
  return held === undefined ? state : 'held';
}

function cursorOf({ isOpen, id }: Place): Uint8Array {
  const cursor = Buffer.alloc(cursorBytes);
  cursor.writeUInt8(isOpen ? 1 : 0, 0);
  cursor.writeUIntBE(id, 1, 6);
  return cursor;
}

/** @throws CommandError */
function placeOf(cursor: Uint8Array): Place {
  const bytes = Buffer.from(cursor);
  if (bytes.length === cursorBytes && (bytes[0] ?? 2) <= 1) {
    return { isOpen: bytes[0] === 1, id: bytes.readUIntBE(1, 6) };
  }
  throw new CommandError('E_BAD_REQUEST', '`after` is not the `next` of an earlier reply');
}
