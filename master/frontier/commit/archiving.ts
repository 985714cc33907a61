/**
 * Has what a slave sent of a task archived before the statement that ends the task goes on. The
 * order of these is that of the archive, so that a mark in the store covers what came before it.
 * `Reports` calls it. Source: PROTOCOL.md [T-103] [T-104].
 */
import { CommandError } from '../../../shared/errors.ts';
import type { Upload } from '../../archive/uploads.ts';
import type { ArchiveMark } from '../../store/archive-rows.ts';
import type { Crawl } from '../crawl/crawl.ts';
import { kindOf } from '../kinds/kinds.ts';
import type { Task } from '../tasks/tasks.ts';
import type { ArchivesPort } from './archives.ts';
import { smallEntryBytes } from './entry.ts';
import type { Pipeline } from './pipeline.ts';
import type { Sources } from './sources.ts';

export class Archiving {
  readonly #archives: ArchivesPort | undefined;
  readonly #pipeline: Pipeline;
  readonly #sources: Sources;

  constructor(archives: ArchivesPort | undefined, pipeline: Pipeline, sources: Sources) {
    this.#archives = archives;
    this.#pipeline = pipeline;
    this.#sources = sources;
  }

  /** A statement about a task of an archived crawl must come with what is to be archived.
   *  @throws CommandError E_BAD_REQUEST [T-104] */
  refuseWithout(upload: Upload | undefined, crawl: Crawl | undefined): void {
    if (upload !== undefined || crawl?.isArchived !== true) return;
    throw new CommandError(
      'E_BAD_REQUEST',
      `the crawl "${crawl.name}" is archived: send the exchanges of the task first`,
    );
  }

  /** Archives what belongs to a task that was claimed, then calls `then`: at once, if there is
   *  nothing. Until then the task counts as work of its crawl. `isAnswered`: false if the attempt
   *  failed. */
  first(
    crawl: Crawl,
    task: Task,
    upload: Upload | undefined,
    then: (archived: ArchiveMark | undefined) => void,
    isAnswered = true,
  ): void {
    const archives = this.#archives;
    if (upload === undefined || upload.exchanges.length === 0 || archives === undefined) {
      upload?.drop();
      then(undefined);
      return;
    }
    if (!crawl.hasKept) {
      upload.drop();
      then(undefined);
      return;
    }
    const settle = this.#pipeline.expect(crawl, smallEntryBytes);
    const kind = kindOf(task);
    const from = kind.owner === 'crawl' ? this.#sources.urlOf(task) : undefined;
    const isPage = kind.answeredBy === 'task.report';
    const { url, depth } = task;
    const about = { task: url, isAnswered, depth, from, kind: kind.name, isPage };
    archives.append(crawl, upload, about, (mark) => {
      then(mark);
      settle();
    });
  }

  /** The same of what no entry ends. */
  alone(crawl: Crawl, task: Task, upload: Upload | undefined): Promise<void> {
    return new Promise((done) => {
      this.first(crawl, task, upload, (archived) => {
        if (archived !== undefined) {
          this.#pipeline.put({ kind: 'archived', crawl, bytes: smallEntryBytes, archived });
        }
        done();
      });
    });
  }
}
