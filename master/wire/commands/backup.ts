/** The verb `backup`. Source: PROTOCOL.md [C-13]. */
import type { Replies } from '../../../shared/replies.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Peer } from '../peer.ts';
import type { CommandPorts } from '../services.ts';

export async function backup(
  { backups }: CommandPorts,
  _peer: Peer,
  { name }: Requests['backup'],
): Promise<Replies['backup']> {
  const { bytes } = await backups.make(name);
  return { bytes };
}
