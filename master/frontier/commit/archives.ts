/** The frontier's view of archives: the seam to `Archives`. */
import type { About } from '../../archive/records.ts';
import type { Upload } from '../../archive/uploads.ts';
import type { ArchiveMark } from '../../store/archive-rows.ts';
import type { Crawl } from '../crawl/crawl.ts';

/** Where the exchanges of tasks go before these end. A crawl without `archive` has nothing
 *  there. */
export interface ArchivesPort {
  /** Appends the exchanges of a task. `then` is called when they are on the disk, in the order of
   *  the calls, with what the commit of the task has to record. */
  append(
    crawl: Crawl,
    upload: Upload,
    about: About,
    then: (mark: ArchiveMark | undefined) => void,
  ): void;
  /** Takes up what an earlier master left. @throws the error of the system */
  restore(crawl: Crawl): Promise<void>;
  /** The crawl is over: its files are complete. */
  rest(crawl: Crawl): Promise<void>;
  /** Does something to the folder of a crawl while nothing is written there. */
  alone<T>(crawl: Crawl, work: () => Promise<T>): Promise<T>;
  /** The crawl is removed, with its files or without. */
  remove(
    crawl: Crawl,
    files: boolean,
  ): Promise<{ readonly deleted: string[]; readonly kept: string[] }>;
  statusOf(crawl: Crawl): { readonly files: number; readonly bytes: number };
}
