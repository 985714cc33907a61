/** The secret of the host hashes, which the first master on a store makes. */
import { randomBytes } from 'node:crypto';
import type { GroupCommit } from './group-commit.ts';
import { secretKey } from './records.ts';
import type { Store } from './store.ts';

export function hostSecret(store: Store, commits: GroupCommit): Buffer {
  const known = store.get('meta', secretKey);
  if (known !== undefined) return known;
  const secret = randomBytes(16);
  commits.submit([{ table: 'meta', key: secretKey, value: secret }]);
  return secret;
}
