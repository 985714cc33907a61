/** The kinds of sinks. A further one is a module beside `files.ts` and a line here. */
import { filesKind } from './files-kind.ts';
import type { SinkKind } from './sink.ts';

/** Where sinks write. */
type SinkOptions = {
  /** `<out>`: a folder for each crawl. */
  readonly folder: string;
};

/** Those that every crawl has. */
export function sinkKinds({ folder }: SinkOptions): SinkKind[] {
  return [filesKind(folder)];
}
