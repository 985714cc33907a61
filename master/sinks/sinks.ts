/** The kinds of sinks. A further one is a module beside `files.ts` and a line here. */
import type { ProgramReader } from '../machine/program-reader.ts';
import { filesKind } from './files-kind.ts';
import type { SinkKind } from './sink.ts';
import { streamKind } from './stream-kind.ts';

/** Where sinks write. */
type SinkOptions = {
  /** `<out>`: a folder for each crawl. */
  readonly outFolder: string;
  /** The program that reads the crawl of that name, if there is one. */
  readonly reader?: ProgramReader | undefined;
  readonly crawl?: string;
};

/** Those that every crawl has, and those of some. */
export function sinkKinds({ outFolder, reader, crawl = '' }: SinkOptions): SinkKind[] {
  return [filesKind(outFolder), streamKind(reader, crawl)];
}
