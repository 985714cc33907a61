/**
 * `failed`: lists the URLs that failed, of one crawl or of all. A running master is asked page by
 * page. Where none runs, the data folder and the result files are read here.
 */
import { checked, listed } from '../../../shared/cli.ts';
import { ConfigError } from '../../../shared/errors.ts';
import { type FailedUrl, fetchErrorKinds, fetchErrorSchema } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import { visible } from '../../../shared/visible.ts';
import { Failures } from '../../inspect/failures.ts';
import { hasStore, StoppedMaster } from '../../inspect/stopped-master.ts';
import { masterOf } from '../../machine/data-folder.ts';
import { crawlName } from '../crawl-options.ts';
import { folderFlags } from '../serve-options.ts';
import type { AskMaker, Command, Join, Values } from './asking.ts';
import { crawlNamesOf, type Folders, foldersOf } from './folders.ts';
import { Listing } from './listing.ts';

export type FailedAsk = {
  readonly verb: 'failed';
  /** Undefined: all crawls. */
  readonly crawl: string | undefined;
  readonly kinds: readonly FailedUrl['kind'][] | undefined;
  /** These are read; undefined: a master is asked. */
  readonly folders: Folders | undefined;
};

const limit = 1_000;
const kindsSchema = fetchErrorSchema.shape.kind.array();
/** Several flags add up. */
const kindsIn = checked(kindsSchema, (text, before: FailedUrl['kind'][] | undefined) => [
  ...(before ?? []),
  ...(listed(text) as FailedUrl['kind'][]),
]);

export function failedCommand(
  { make }: AskMaker,
  take: (values: Values, ask: FailedAsk) => void,
): Command {
  const command = make(
    'failed',
    'list the failed URLs of a crawl, or of all crawls; the master need not run',
  )
    .argument('[crawl]', 'name of the crawl; default: all', crawlName)
    .option(
      '--kind <kinds>',
      `list only failures of these kinds: ${fetchErrorKinds.join(', ')}`,
      kindsIn,
    );
  for (const option of folderFlags()) command.addOption(option);
  return command.action((crawl: string | undefined, values: Values) => {
    const kinds = values['kind'] as FailedAsk['kinds'];
    take(values, { verb: 'failed', crawl, kinds, folders: foldersOf(command, crawl) });
  });
}

/** Prints the list. @throws ConfigError · AuthError · CommandError */
export async function askFailed(ask: FailedAsk, isJson: boolean, join: Join): Promise<void> {
  const source = ask.folders === undefined ? await ofMaster(join) : await ofFolders(ask.folders);
  const listing = new Listing(isJson);
  try {
    const crawls = ask.crawl === undefined ? await source.crawls() : [ask.crawl];
    for (const crawl of crawls) await list(source, crawl, ask, listing);
    const which = ask.kinds === undefined ? '' : ' in this way';
    listing.end(`no URL has failed${which}`);
  } finally {
    await source.close();
  }
}

/** Of whom the failed URLs are asked. */
type Source = {
  crawls(): Promise<readonly string[]>;
  page(crawl: string, wanted: Wanted): Promise<Replies['crawl.failed']>;
  close(): Promise<void>;
};
type Wanted = {
  readonly limit: number;
  readonly after?: Uint8Array;
  readonly kinds?: FailedUrl['kind'][];
};

async function ofMaster(join: Join): Promise<Source> {
  const master = await join();
  return {
    crawls: () => crawlNamesOf(master),
    page: (crawl, wanted) => master.request('crawl.failed', { crawl, ...wanted }),
    close: () => master.close(),
  };
}

async function ofFolders(folders: Folders): Promise<Source> {
  const { outFolder, dataFolder } = folders;
  if (!hasStore(dataFolder) && masterOf(dataFolder) === undefined) return ofFiles(folders);
  const stopped = await StoppedMaster.open({ dataFolder, outFolder });
  const folderOf = (crawl: string) => stopped.folderOf(crawl);
  const failures = new Failures({ store: stopped.store, folderOf });
  return {
    crawls: () => Promise.resolve([...stopped.crawls()].map(({ name }) => name)),
    page: (crawl, wanted) => failures.page(stopped.crawl(crawl), wanted),
    close: () => stopped.close(),
  };
}

/** Without a store, the lines of the files are all that is known. */
function ofFiles({ dataFolder, outFolder }: Folders): Source {
  const failures = new Failures({ store: undefined, folderOf: (crawl) => `${outFolder}/${crawl}` });
  return {
    crawls: () =>
      Promise.reject(
        new ConfigError(
          `there is no store in ${dataFolder}: give the name of the crawl, or --data`,
        ),
      ),
    async page(name, wanted) {
      const page = await failures.page({ id: 0, name }, wanted);
      if (page.missing === undefined) return page;
      throw new ConfigError(
        `there is no store in ${dataFolder}, and no pages.jsonl in ${outFolder}/${name}; give ` +
          'their folders with --data and --out',
      );
    },
    close: () => Promise.resolve(),
  };
}

async function list(
  source: Source,
  crawl: string,
  { kinds, crawl: named }: FailedAsk,
  listing: Listing,
): Promise<void> {
  let after: Uint8Array | undefined;
  let isMissing = false;
  do {
    const page = await source.page(crawl, {
      limit,
      ...(after !== undefined && { after }),
      ...(kinds !== undefined && { kinds: [...kinds] }),
    });
    listing.add(
      page.urls.map((failed) => ({
        text: textOf(failed, named === undefined ? [crawl] : []),
        answer: { crawl, ...failed },
      })),
    );
    isMissing ||= page.missing === true;
    after = page.next;
  } while (after !== undefined && listing.isWanted);
  if (!isMissing) return;
  console.error(
    visible(
      `crawl ${crawl}: some of its pages*.jsonl files are not there; of their failures, only URLs ` +
        'that were given up after retries are listed',
    ),
  );
}

function textOf({ kind, status, attempts, url, message }: FailedUrl, before: string[]): string {
  const cells = [...before, kind, status ?? '-', attempts, url, message];
  return cells.map((cell) => visible(String(cell))).join('\t');
}
