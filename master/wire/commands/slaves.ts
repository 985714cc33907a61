/** Verbs about slaves: what they say of themselves, their list, and drain. Source: PROTOCOL.md
 *  [T-70], [T-80], [T-94], [C-74], [C-75]. */
import { CommandError } from '../../../shared/errors.ts';
import type { SlaveRow } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Peer } from '../peer.ts';
import type { CommandPorts } from '../services.ts';

/** Characters of the names of programs in one list: a frame has a limit. [F-5] */
const listCharsMax = 4 << 20;

export function state(
  _ports: CommandPorts,
  peer: Peer,
  { verb: _, id: __, ...said }: Requests['slave.state'],
): Replies['slave.state'] {
  peer.record.state = said;
  return {};
}

export function can(
  _ports: CommandPorts,
  peer: Peer,
  { what }: Requests['slave.can'],
): Replies['slave.can'] {
  peer.setAbilities(what);
  return {};
}

export function loginFailed(
  { frontier }: CommandPorts,
  _peer: Peer,
  { crawl, round, why }: Requests['login.failed'],
): Replies['login.failed'] {
  frontier.loginFailed(crawl, round, why);
  return {};
}

export function list(
  { peers, jobs }: CommandPorts,
  _peer: Peer,
  { after = -1, limit }: Requests['slave.list'],
): Replies['slave.list'] {
  const slaves = peers.sessions
    .filter(({ role, id }) => role === 'slave' && id > after)
    .sort((a, b) => a.id - b.id);
  const rows: SlaveRow[] = [];
  let chars = 0;
  for (const peer of slaves) {
    if (rows.length === limit || chars > listCharsMax) break;
    const row = rowOf(peer, jobs);
    const { programs = [], scripts = [] } = row.exec ?? {};
    for (const name of [...programs, ...scripts]) chars += name.length;
    rows.push(row);
  }
  const next = slaves.length > rows.length ? rows.at(-1)?.session : undefined;
  return { slaves: rows, ...(next !== undefined && { next }) };
}

/** Lets slaves finish what they have, and leave for good: those of that name, and the processes of
 *  one that was started with --processes. */
export function drain(
  { peers, jobs }: CommandPorts,
  _peer: Peer,
  { slave }: Requests['slave.drain'],
): Replies['slave.drain'] {
  const slaves = peers.sessions.filter(({ role }) => role === 'slave');
  const isProcess = (name: string) =>
    name.startsWith(`${slave}.`) && /^\.\d+$/.test(name.slice(slave.length));
  const named = slaves.filter(({ name }) => name === slave || isProcess(name));
  if (named.length === 0) {
    throw new CommandError('E_BAD_REQUEST', `no slave "${slave}" is connected; see slaves`);
  }
  for (const peer of named) peer.drain();
  return { slaves: named.map((peer) => rowOf(peer, jobs)) };
}

function rowOf(peer: Peer, jobs: CommandPorts['jobs']): SlaveRow {
  const exec = jobs.executorOf(peer);
  const { id, name, peer: address, slots, leases, takes, record, hasRules } = peer;
  const { since, state: said, isDraining, errors, fetchesPerS, proxies } = record;
  return {
    session: id,
    name,
    address,
    since,
    slots,
    leases: leases.size,
    fetchesPerS,
    errors,
    ...(takes !== 'all' && { takes }),
    ...(hasRules && { rules: true as const }),
    ...said,
    ...(proxies.length > 0 && { proxies }),
    ...(exec && {
      exec: {
        slots: exec.slots,
        running: exec.jobs.size,
        programs: [...exec.programs],
        scripts: [...exec.scripts],
      },
    }),
    ...(isDraining && { draining: true as const }),
  };
}
