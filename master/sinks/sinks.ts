/** The kinds of sinks: those that every crawl has, and those of its outputs. A further one is a
 *  module beside `files.ts`, or in `outputs/`, and a line here. */
import { messageOf } from '../../shared/errors.ts';
import type { NamedOutput, OutputKind } from '../../shared/outputs.ts';
import type { ProgramReader } from '../machine/program-reader.ts';
import { filesKind } from './files-kind.ts';
import { named, type OutputContext } from './outputs/context.ts';
import { mongodbKind } from './outputs/mongodb.ts';
import { mysqlKind } from './outputs/mysql.ts';
import { parquetKind } from './outputs/parquet.ts';
import { postgresKind } from './outputs/postgres.ts';
import { redisKind } from './outputs/redis.ts';
import { sqliteKind } from './outputs/sqlite.ts';
import { textFileKind } from './outputs/text-file.ts';
import { type Sink, type SinkKind, UnavailableError } from './sink.ts';
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

type OutputMaker = (output: NamedOutput, context: OutputContext) => SinkKind;

const outputMakers: Readonly<Record<OutputKind, OutputMaker>> = {
  jsonl: textFileKind,
  csv: textFileKind,
  sqlite: sqliteKind,
  postgres: postgresKind,
  mysql: mysqlKind,
  redis: redisKind,
  mongodb: mongodbKind,
  parquet: parquetKind,
};

/** The sink of an output. Its errors begin with its name. */
export function outputKind(output: NamedOutput, context: OutputContext): SinkKind {
  const kind = outputMakers[output.kind](output, context);
  const { name } = output;
  const saying = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw named(name, error);
    }
  };
  const told = (sink: Sink): Sink => ({
    write: (records, progress) => saying(() => sink.write(records, progress)),
    check: () => saying(() => sink.check()),
    close: () => sink.close(),
    cutBytes: sink.cutBytes,
    get reached() {
      return sink.reached;
    },
    finish: (progress) => saying(async () => await sink.finish?.(progress)),
  });
  return {
    ...kind,
    isPrompt: true,
    prepare: (crawl) => saying(() => kind.prepare(crawl).catch((error) => refused(output, error))),
    open: (crawl, mark) => saying(async () => told(await kind.open(crawl, mark))),
    beginAnew: (crawl, mark) => saying(() => kind.beginAnew(crawl, mark)),
  };
}

/** Somebody wants an output that cannot be written: no crawl waits for it, to be resumed. */
function refused({ target }: NamedOutput, error: unknown): never {
  if (!(error instanceof UnavailableError)) throw error;
  const how = 'see that it can be reached and written, and try again, or leave this output out';
  throw new UnavailableError(`${messageOf(error)} (${target}); ${how}`, error);
}
