/** Says of an output to a database that it goes on behind records which it does not have. */
import { number } from '../machine/progress.ts';
import type { BegunFile } from '../sinks/sink.ts';

export function gapText({ written, found }: NonNullable<BegunFile['records']>): string {
  const has = found === 0 ? 'has none of those before' : `has those up to ${number(found)}`;
  return `goes on after record ${number(written)}: the database ${has}`;
}
