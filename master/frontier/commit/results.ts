/** The frontier's view of the result queue: the seam to the sinks. `ResultQueue` is one. */
import type { NamedOutput } from '../../../shared/outputs.ts';
import type { SinkState } from '../../sinks/result-queue.ts';
import type { ClosedTarget, Deleted, Resumed } from '../../sinks/sink.ts';
import type { SealedRow } from '../../store/result-rows.ts';
import type { Crawl } from '../crawl/crawl.ts';

/** A crawl, as the result queue of a frontier has it. */
export type ResultsCrawl = Crawl;

/** Where findings go when they are on the disk. A method may be absent where no other
 *  program can take the targets away. */
export interface ResultsPort {
  /** Takes over a row of the result queue. */
  offer(crawl: Crawl, commit: number, row: SealedRow): void;
  /** True while sinks lag so far behind that no more should be fetched. */
  readonly isFull: boolean;
  /** Takes up what an earlier master left unwritten. @throws ConfigError the disk fails */
  restore?(crawl: Crawl): Promise<void>;
  /** To be called before a crawl is made. @throws ConfigError its targets cannot be written */
  prepare?(
    crawlName: string,
    outputs?: readonly NamedOutput[],
    fetch?: { readonly download?: unknown },
  ): Promise<void>;
  /** Checks that the written results are still there, before the end of their crawl is reported. If
   *  not, the crawl is held when this resolves. */
  confirm?(crawl: Crawl): Promise<void>;
  /** Nothing more of a crawl is fetched: sinks write what they gather. */
  end?(crawl: Crawl): void;
  /** Lets a crawl that is held be written again: see `ResultQueue`.
   *  @throws CommandError E_BAD_REQUEST */
  resume?(crawl: Crawl, newFiles: boolean): Promise<Resumed>;
  /** The crawl is cancelled: drops what its sinks cannot write any more. */
  giveUp?(crawl: Crawl): Promise<void>;
  /** The crawl is removed: see `ResultQueue`. @throws ConfigError a file cannot be deleted */
  remove?(crawl: Crawl, files: boolean): Promise<Deleted>;
  /** Has this name results already? */
  isTaken?(name: string): Promise<boolean>;
  /** Renames the results of a crawl: see `ResultQueue`. @throws ConfigError they cannot be */
  rename?(
    crawl: Crawl,
    names: { readonly from: string; readonly to: string; readonly isAgain: boolean },
    renamed: () => Promise<void>,
  ): Promise<void>;
  /** Closes the results of a crawl under a dated name: see `ResultQueue`.
   *  @throws CommandError E_BAD_REQUEST they cannot be closed */
  rotate?(crawl: Crawl): Promise<readonly ClosedTarget[]>;
  /** The same for outputs that a crawl is to get, beside others of `all`. @throws ConfigError */
  prepareOutputs?(
    crawlName: string,
    outputs: readonly NamedOutput[],
    all?: readonly NamedOutput[],
    fetch?: { readonly download?: unknown },
  ): Promise<void>;
  /** Its outputs have changed from `before`: those that are new begin with the next record. */
  outputsChanged?(crawl: Crawl, before: readonly NamedOutput[]): Promise<void>;
  /** Its sinks, and how far each has come. */
  sinksOf?(crawl: Crawl): SinkState[];
  /** Those that cannot write for now, and are tried again. */
  failingOf?(crawl: Crawl): Pick<Required<SinkState>, 'name' | 'reason' | 'ms'>[];
  /** The crawl has finished: frees what only an open one needs. */
  rest?(crawl: Crawl): Promise<void>;
}
