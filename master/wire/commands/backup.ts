/** The verb `backup`. Source: PROTOCOL.md [C-13]. */
import type { Replies } from '../../../shared/protocol.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Services } from '../services.ts';
import type { Session } from '../session.ts';

export async function backup(
  { backups }: Services,
  _session: Session,
  { name }: Requests['backup'],
): Promise<Replies['backup']> {
  const { bytes } = await backups.make(name);
  return { bytes };
}
