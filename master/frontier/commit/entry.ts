/**
 * The entries of the filter queue: what slaves, programs and operators say, until a commit takes
 * it. Types alone, so that all who make or take entries can name them.
 */
import type { ImageFacts } from '../../../shared/images.ts';
import type { Replies } from '../../../shared/replies.ts';
import type {
  FetchErrorBody,
  Image,
  Requests,
  Result,
  SeedRequest,
} from '../../../shared/requests.ts';
import type { Content } from '../../archive/contents.ts';
import type { Upload } from '../../archive/uploads.ts';
import type { ArchiveMark } from '../../store/archive-rows.ts';
import type { Place } from '../../store/image-rows.ts';
import type { FoundItems, PackedReport, Unfetched } from '../../store/result-rows.ts';
import type { Change, Row } from '../../store/store.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { FoundAddresses } from '../crawl/seed-hosts.ts';
import type { RobotsAnswer } from '../robots/gate.ts';
import type { Task } from '../tasks/tasks.ts';

export type Report = {
  readonly result: Result;
  readonly images: Image[];
  readonly links: Uint8Array;
  /** As they came, so that they need not be packed again. */
  readonly packed?: PackedReport | undefined;
  /** The rows that the rules of the crawl made of the page. */
  readonly items?: FoundItems | undefined;
  /** Links of other priorities than that of the page. */
  readonly follow?: Requests['task.report']['follow'];
};
/** An image: `facts` undefined: the answer is none. `sentBytes`: it is in the folder of its
 *  crawl, on the disk, and so long; `lost`: it could not be written. */
export type Picture = {
  readonly result: Result;
  readonly facts?: ImageFacts | undefined;
  readonly sentBytes: number | 'lost' | undefined;
  /** Where they are in a shard. */
  readonly place?: Place | undefined;
};
export type SitemapPart = Pick<Requests['task.sitemap'], 'kind' | 'urls' | 'images'> & {
  /** In the last part. */
  readonly end?:
    | { readonly result: Result; readonly urls: number; readonly images: number }
    | undefined;
};

/** The successful answer to a task, by the verb of its message. `upload`: what is archived of it;
 *  undefined: the slave sent nothing of the kind. */
export type Answer = { readonly upload?: Upload | undefined } & AnswerOf;
type AnswerOf =
  | ({ readonly verb: 'task.report' } & Report)
  | ({ readonly verb: 'task.sitemap' } & SitemapPart)
  | {
      readonly verb: 'task.image';
      readonly result: Result;
      readonly facts: ImageFacts | undefined;
      /** Undefined: the crawl has them, or wants none. */
      readonly content: Content | undefined;
    }
  | {
      readonly verb: 'task.robots';
      readonly answer: RobotsAnswer;
      readonly file: Uint8Array;
    };

/** A fetch that failed. `isFinal`: not tried again, however many attempts are left. */
export type FailedFetch = {
  readonly error: FetchErrorBody;
  readonly retryAfterMs?: number | undefined;
  readonly isFinal?: boolean | undefined;
  /** As of an answer. */
  readonly upload?: Upload | undefined;
};

/** Where links come from; `url` is '' when that is not known. */
export type Origin = Pick<Task, 'url' | 'depth' | 'priority'>;

/** Links and images without a report. */
export type Offer = {
  readonly links: Uint8Array;
  readonly images: readonly Image[];
  readonly from: Origin;
};

/** The outcome of a report: `stale` when its task was done already. */
export type Verdict = 'done' | 'stale';
export type SeedVerdict = Replies['crawl.add'];
export type EarlierUrl = Requests['crawl.recrawl']['urls'][number];

/** One thing that waits to be gathered. `bytes`: what it holds in memory, about. `archived`: how
 *  far the archive of the crawl is with what belongs to it. */
export type Entry = {
  readonly crawl: Crawl;
  readonly bytes: number;
  readonly archived?: ArchiveMark | undefined;
  /** So many ms nobody waits for the answer, nor for what it led to. Default: 0. */
  readonly mayWaitMs?: number;
} & (
  | {
      kind: 'report';
      task: Task;
      report: Report;
      links: LinkCount;
      slave: string;
      done: (v: Verdict) => void;
    }
  | { kind: 'links'; from: Origin; part: Uint8Array; links: LinkCount }
  | { kind: 'offer'; offer: Offer; done: () => void }
  | { kind: 'failure'; failure: Failure; done: (v: Verdict) => void }
  | { kind: 'sitemap'; task: Task; part: SitemapPart; slave: string; done: (v: Verdict) => void }
  | { kind: 'image'; task: Task; picture: Picture; slave: string; done: (v: Verdict) => void }
  | { kind: 'sitemaps'; urls: readonly string[]; level: number }
  | { kind: 'excluded'; task: Task; excluded: Unfetched; done: () => void }
  | {
      kind: 'again';
      urls: readonly EarlierUrl[];
      /** Changes that are committed with them, for a crawl with this number. */
      also?: ((crawl: number) => readonly Change[]) | undefined;
      found: FoundAddresses;
      done: (v: Replies['crawl.recrawl']) => void;
    }
  | { kind: 'replay'; rows: readonly Row[]; done: () => void }
  /** Something was archived that no entry ends: a robots.txt. */
  | { kind: 'archived' }
  | {
      kind: 'seeds';
      urls: readonly string[];
      requests: readonly SeedRequest[];
      priority: number;
      /** Of its sources of seeds, for the record. */
      schedule?: Uint8Array | undefined;
      found: FoundAddresses;
      done: (v: SeedVerdict) => void;
    }
);

/** How many links of one report were taken so far, over the entries that it was cut into. */
type LinkCount = { total: number };

export type Failure = {
  readonly task: Task;
  readonly error: FetchErrorBody;
  /** Undefined: never again, whatever attempts it has left. */
  readonly retryAt: number | undefined;
  /** '' when no slave had it. */
  readonly slave: string;
  /** How often it was tried; by default once more than before. */
  readonly attempts?: number;
};

/** Memory of an entry without links, in bytes, about. */
export const smallEntryBytes = 512;
