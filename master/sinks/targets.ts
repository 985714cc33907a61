/** The targets of a crawl in all of its sinks together. */
import type { SinkKind } from './sink.ts';

/** Renames all of them, or none: see `SinkKind`. @throws ConfigError one cannot be renamed */
export async function renameTargets(
  kinds: readonly SinkKind[],
  from: string,
  to: string,
  isAgain: boolean,
): Promise<void> {
  const renamed: SinkKind[] = [];
  try {
    for (const kind of kinds) {
      await kind.rename(from, to, isAgain);
      renamed.push(kind);
    }
  } catch (error) {
    for (const kind of renamed) await kind.rename(to, from, true);
    throw error;
  }
}
