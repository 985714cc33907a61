/** `extract FILE --from ARCHIVE --as NAME`: the rules of a crawl file over what was archived. */
import { createHash } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { amount } from '../../../shared/amount.ts';
import { makeCommand, whole } from '../../../shared/cli.ts';
import { ConfigError } from '../../../shared/errors.ts';
import { countNames } from '../../../shared/page-items.ts';
import type { RuleCounts } from '../../../shared/rule-results.ts';
import { visible, visibleJson } from '../../../shared/visible.ts';
import { ArchivedAnswers } from '../../extract/archived-answers.ts';
import { type ExtractCounts, ExtractFiles } from '../../extract/extract-files.ts';
import { ExtractOutputs, outputsOfRows } from '../../extract/extract-outputs.ts';
import { Extraction } from '../../extract/extraction.ts';
import { type CrawlFile, readCrawlFile } from '../crawl-file.ts';
import { crawlName } from '../crawl-options.ts';
import { ruleLines, ruleWarnings } from '../rule-lines.ts';
import { folderFlags } from '../serve-options.ts';
import { Trial } from '../trial.ts';
import type { Command, Values } from './asking.ts';

/** A command that needs no master. */
export type ExtractOptions = {
  readonly kind: 'extract';
  readonly file: string;
  readonly archive: string;
  readonly name: string;
  readonly outFolder: string;
  readonly processes: number;
  readonly json: boolean;
  /** Of the secrets of outputs. */
  readonly env: NodeJS.ProcessEnv;
};

const processesMax = 64;

export function extractCommand(
  take: (options: ExtractOptions) => void,
  env: NodeJS.ProcessEnv,
): Command {
  const command = makeCommand('extract', env)
    .description('run the rules of a crawl file over an archive; nothing is fetched')
    .argument('<file>', 'crawl file (YAML or JSON)')
    .requiredOption('--from <archive>', 'folder of the archive, or of its crawl, or one WARC file')
    .requiredOption('--as <name>', 'name of the folder for the rows, below --out', crawlName)
    .option(
      '--processes <n>',
      'number of processes that evaluate rules; default: one per core',
      whole(1, processesMax),
    )
    .option('--json', 'print the answer as JSON', false);
  for (const option of folderFlags()) if (option.long === '--out') command.addOption(option);
  return command.action((file: string, values: Values) =>
    take({
      kind: 'extract',
      file,
      archive: String(values['from']),
      name: String(values['as']),
      outFolder: String(values['out']),
      processes: Number(
        values['processes'] ?? Math.max(1, Math.min(processesMax, availableParallelism())),
      ),
      json: values['json'] === true,
      env,
    }),
  );
}

/** Prints what came of it. The same command goes on where a run ended.
 *  @throws ConfigError the file or the archive cannot be used, or the rows cannot be written */
export async function extract(
  { file: path, archive: from, name, outFolder, processes, json, env }: ExtractOptions,
  print: (line: string) => void,
): Promise<void> {
  const file = readCrawlFile(path);
  if (Object.keys(file.items).length === 0) {
    throw new ConfigError(`${path} has no items, so there is nothing to extract`);
  }
  const archive = await ArchivedAnswers.open(from);
  const spec = { ...file.spec, fetch: { ...file.spec.fetch, items: file.items } };
  const { outputs: wanted, left } = outputsOfRows(file.outputs);
  for (const output of left) console.error(visible(`extract leaves out the output ${output}`));
  const trials: Trial[] = [];
  let files: ExtractFiles | undefined;
  let outputs: ExtractOutputs | undefined;
  try {
    const starts = Array.from({ length: processes }, async () => {
      const trial = await Trial.start();
      trials.push(trial);
      await trial.learn(spec.fetch);
    });
    // One that fails must not leave those behind that start later.
    const started = await Promise.allSettled(starts);
    for (const one of started) if (one.status === 'rejected') throw one.reason;
    const folder = join(outFolder, name);
    files = await ExtractFiles.open(folder, { rules: digestOf(file), archive: archive.path });
    outputs = await ExtractOutputs.open(wanted, files, { name, outFolder, items: file.items, env });
    const before = files.counts.pages;
    const evaluators = trials.map((trial) => trial.replay.bind(trial));
    await new Extraction({ archive, files, outputs, spec, evaluators }).run();
    const { counts } = files;
    const { cutAt } = archive;
    if (json) print(visibleJson(JSON.stringify({ ...counts, rules: countsOf(counts), cutAt })));
    else for (const line of told(file, counts, { before, folder })) print(visible(line));
    if (cutAt !== undefined) {
      console.error(
        visible(
          `${join(archive.folder, cutAt.file)} ends in the middle of a record, at byte ` +
            `${cutAt.offset}; run the same command again when it is complete`,
        ),
      );
    }
  } finally {
    await outputs?.close();
    await files?.close();
    await Promise.all(trials.map((trial) => trial.close()));
  }
}

/** Settings that rows depend on, besides the archive. */
function digestOf({ items, spec }: CrawlFile): string {
  const { fetch, canonical } = spec;
  const { ruleBytes, bodyBytesMax, obey, userAgent } = fetch;
  const parts = { items, canonical, ruleBytes, bodyBytesMax, obey, userAgent };
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

function countsOf({ rules }: ExtractCounts): Record<string, RuleCounts> {
  const entries = Object.entries(rules).map(([name, numbers]) => {
    const counts = countNames.map((one, i) => [one, numbers[i] ?? 0] as const);
    return [name, Object.fromEntries(counts) as RuleCounts] as const;
  });
  return Object.fromEntries(entries);
}

function told(
  { items }: CrawlFile,
  counts: ExtractCounts,
  { before, folder }: { readonly before: number; readonly folder: string },
): string[] {
  const rules = countsOf(counts);
  const { pages, rows, rejected, passed } = counts;
  const isMore = before > 0 ? `, ${amount(before, 'page')} of them before` : '';
  const others = Object.entries(passed).map(([why, count]) => `${count} ${passedText[why] ?? why}`);
  return [
    `${amount(rows, 'row')} of ${amount(pages, 'page')}${isMore}, in ${join(folder, 'items.jsonl')}`,
    ...(rejected > 0 ? [`${amount(rejected, 'row')} rejected, in rejected.jsonl`] : []),
    ...(others.length > 0 ? [`other answers: ${others.join(', ')}`] : []),
    ...ruleLines({ rules }),
    ...ruleWarnings(items, rules).map((line) => `warning: ${line}`),
  ];
}

const passedText: Readonly<Record<string, string>> = {
  failed: 'failed or redirected',
  other: 'that are no pages',
  unchanged: 'unchanged since an earlier crawl',
  missing: 'whose page is in no file of the archive',
  redirected: 'of pages that were there already',
  noindex: 'with noindex',
  canonical: 'of pages with another canonical URL',
};
