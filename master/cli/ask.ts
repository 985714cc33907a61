/** The subcommands: each sends a request to a running master and prints the answer. */
import { amount } from '../../shared/amount.ts';
import { type ConnectOptions, connect, type MasterClient } from '../../shared/client.ts';
import {
  CommandError,
  ConfigError,
  ConnectionError,
  messageOf,
  ProtocolError,
} from '../../shared/errors.ts';
import type { Replies } from '../../shared/replies.ts';
import type { SeedRequest } from '../../shared/requests.ts';
import { visible, visibleJson, visibleLines } from '../../shared/visible.ts';
import { masterOf } from '../machine/data-folder.ts';
import { number } from '../machine/progress.ts';
import type { AskOptions } from './ask-options.ts';
import type { Answer } from './asks/asking.ts';
import { askExec } from './asks/exec.ts';
import { askFailed } from './asks/failed.ts';
import { askHost } from './asks/host.ts';
import { askHosts } from './asks/hosts.ts';
import { askJobs } from './asks/jobs.ts';
import { ledgerOfFolders } from './asks/ledger.ts';
import { askRemove } from './asks/remove.ts';
import { askRename } from './asks/rename.ts';
import { askRotate } from './asks/rotate.ts';
import { askSet } from './asks/set.ts';
import { askSinks } from './asks/sinks.ts';
import { askDrain, askSlaves } from './asks/slaves.ts';
import { askStatus } from './asks/status.ts';
import { askWhy } from './asks/why.ts';
import { gapText } from './record-gap.ts';
import { recrawl } from './recrawl.ts';
import { type Gathered, gather } from './seed-gathering.ts';
import { countOf, partlyAdded, readSeeds, seedParts } from './seeds.ts';
import { sayingWhyItWaits } from './waiting.ts';

/** Returns the exit code. @throws ConfigError the operator must act · AuthError */
export async function ask(options: AskOptions): Promise<number> {
  try {
    return await answerTo(options);
  } catch (error) {
    if (error instanceof CommandError) throw new ConfigError(error.message, error);
    if (error instanceof ConnectionError) throw lostAnswer(options, error);
    throw error;
  }
}

async function answerTo(options: AskOptions): Promise<number> {
  const { ask: question, json } = options;
  if (question.verb === 'failed') {
    await askFailed(question, json, () => join(options));
    return 0;
  }
  if (question.verb === 'why') {
    await askWhy(question, json, () => join(options));
    return 0;
  }
  if (question.verb === 'status' && question.folders !== undefined) {
    return show(await ledgerOfFolders(question.folders, question), json);
  }
  if (question.verb === 'exec') {
    return await askExec(question, json, (onPush, onClose) => join(options, { onPush, onClose }));
  }
  const seeds = question.verb === 'add' ? await furtherSeeds(question) : none;
  const master = await join(options);
  try {
    if (question.verb === 'hosts') {
      await askHosts(master, question, json);
      return 0;
    }
    const answer = perform(master, question, json, seeds);
    return show(await sayingWhyItWaits(master, answer), json);
  } finally {
    await master.close();
  }
}

/** The connection ended between the request and its answer. */
function lostAnswer({ ask: question, master: { host, port } }: AskOptions, error: ConnectionError) {
  const what = `the connection to the master at ${host}:${port} was lost before its answer came`;
  const again = isReading(question)
    ? 'run the command again'
    : 'what was asked for may have been done: look at status or jobs before you ask again';
  return new ConfigError(`${what} (${error.message}); ${again}`, error);
}

/** Does the command change nothing? */
function isReading(question: AskOptions['ask']): boolean {
  switch (question.verb) {
    case 'failed':
    case 'hosts':
    case 'slaves':
    case 'status':
    case 'why':
      return true;
    case 'buried':
      return !question.replay;
    case 'jobs':
      return question.cancel === undefined;
    case 'sinks':
      return question.drop === undefined;
    default:
      return false;
  }
}

/** Those of files, and those of a crawl file. @throws ConfigError */
async function furtherSeeds(question: AskOptions['ask'] & { verb: 'add' }): Promise<Gathered> {
  const { seedFiles, list, crawlFile: file = '', asked } = question;
  const warn = (line: string) => console.error(visible(`master: ${line}`));
  const ofFiles = await readSeeds(seedFiles);
  const { urls: listed, requests } = await gather(list, file, { spec: asked, warn });
  const urls = [...ofFiles, ...listed];
  if (urls.length + requests.length + question.seeds.length === 0) {
    throw new ConfigError(`${file} makes no seed at the moment: nothing was added`);
  }
  return { urls, requests };
}

/** Prints an answer. Returns the exit code. */
function show({ text, answer, exitCode = 0 }: Answer, isJson: boolean): number {
  console.log(isJson ? visibleJson(JSON.stringify(answer)) : visibleLines(text));
  return exitCode;
}

async function join(
  { master: { host, port, isOwn, authkey, tls } }: AskOptions,
  hears: Pick<ConnectOptions, 'onPush' | 'onClose'> = {},
): Promise<MasterClient> {
  try {
    return await connect({ host, port, authkey: authkey(), tls, timeoutMs: connectMs, ...hears });
  } catch (error) {
    if (error instanceof ConnectionError) {
      const why = `no master answers at ${host}:${port} (${error.message}); `;
      const pid = isOwn ? masterOf('./orb-data') : undefined;
      const other = 'is starting, leaving or standing still, or is a compact or a repair';
      const starting = `the one with process id ${pid} ${other}: look at its log`;
      const absent = 'start a master, or give its address with --master';
      throw new ConfigError(why + (pid === undefined ? absent : starting));
    }
    if (error instanceof ProtocolError) throw new ConfigError(`${host}:${port}: ${error.message}`);
    throw error;
  }
}

const connectMs = 5_000;
const none: Gathered = { urls: [], requests: [] };

/** All but those that print a list as it comes. */
type Question = Exclude<AskOptions['ask'], { verb: 'failed' | 'hosts' | 'why' | 'exec' }>;

/** `further`: seeds of files. */
async function perform(
  master: MasterClient,
  question: Question,
  isJson: boolean,
  further: Gathered,
): Promise<Answer> {
  switch (question.verb) {
    case 'status':
      return await askStatus(master, question, isJson);
    case 'slaves':
      return await askSlaves(master);
    case 'drain':
      return await askDrain(master, question.slave);
    case 'host':
      return await askHost(master, question);
    case 'add':
      return await add(
        master,
        { ...question, seeds: [...question.seeds, ...further.urls] },
        further.requests,
      );
    case 'recrawl': {
      const answer = await recrawl(master, question);
      const { admitted, known, refused, conditional } = answer;
      const lines = [
        admitted === 0
          ? `nothing new for crawl ${question.crawl}`
          : `crawl ${question.crawl} started: ${amount(admitted, 'URL')} of ${question.like}, ` +
            `${number(conditional)} of them fetched only if changed`,
      ];
      if (known > 0) lines.push(`${number(known)} already known`);
      if (refused > 0) lines.push(`${number(refused)} out of scope`);
      return { text: lines.join('\n'), answer };
    }
    case 'pause': {
      const { crawl } = question;
      const answer = await master.request('crawl.pause', { crawl });
      return { text: stateText(crawl, answer), answer };
    }
    case 'resume':
      return await resume(master, question);
    case 'cancel': {
      const { crawl } = question;
      const answer = await master.request('crawl.cancel', { crawl });
      return { text: `crawl ${crawl} is cancelled`, answer };
    }
    case 'backup': {
      const answer = await master.request('backup', { name: question.name });
      const size = `${(answer.bytes / 1e6).toFixed(1)} MB`;
      return {
        text: `backed up ${size} to backups/${question.name} in the master's data folder`,
        answer,
      };
    }
    case 'buried':
      return await buried(master, question);
    case 'remove':
      return await askRemove(master, question);
    case 'rename':
      return await askRename(master, question);
    case 'set':
      return await askSet(master, question);
    case 'rotate':
      return await askRotate(master, question);
    case 'jobs':
      return await askJobs(master, question);
    case 'sinks':
      return await askSinks(master, question);
    default:
      return question satisfies never;
  }
}

/** A finished, cancelled or held crawl keeps its state. */
function stateText(crawl: string, { state }: Replies['crawl.pause']): string {
  return `crawl ${crawl} ${state === 'running' ? 'resumed' : `is ${state}`}`;
}

async function resume(
  master: MasterClient,
  { crawl, newFiles }: AskOptions['ask'] & { verb: 'resume' },
): Promise<Answer> {
  // An older master would refuse the field.
  const answer = await master.request('crawl.resume', { crawl, ...(newFiles && { newFiles }) });
  const lines = [stateText(crawl, answer)];
  for (const { file, bytes, lines: count, movedTo, records } of answer.begun ?? []) {
    if (records !== undefined) {
      lines.push(`${file} ${gapText(records)}`);
      continue;
    }
    const had = count === undefined ? '' : `${amount(count, 'line')}, `;
    const aside = movedTo === undefined ? '' : `, and was moved to ${movedTo}`;
    lines.push(`started a new ${file}: the old one had ${had}${amount(bytes, 'byte')}${aside}`);
  }
  if (newFiles && lines.length === 1)
    lines.push('its files are unchanged: no new file was started');
  return { text: lines.join('\n'), answer };
}

async function add(
  master: MasterClient,
  { crawl, seeds, priority, spec }: AskOptions['ask'] & { verb: 'add' },
  requests: readonly SeedRequest[],
): Promise<Answer> {
  const answer: Replies['crawl.add'] = { admitted: 0, known: 0, refused: [] };
  let made = spec === undefined ? {} : { spec };
  let offered = 0;
  for (const part of seedParts({ seeds, requests })) {
    const asked = master.request('crawl.add', { crawl, ...part, priority, ...made });
    const reply = await asked.catch((error: unknown) => {
      if (offered === 0) throw error;
      const text = `${messageOf(error)}: ${partlyAdded(offered, { seeds, requests })}`;
      throw new ConfigError(text, error);
    });
    made = {};
    offered += countOf(part);
    answer.admitted += reply.admitted;
    answer.known += reply.known;
    answer.refused.push(...reply.refused);
  }
  const lines = [`${number(answer.admitted)} new, ${number(answer.known)} already known`];
  for (const { url, why } of answer.refused) lines.push(visible(`refused ${url}: ${why}`));
  return { text: lines.join('\n'), answer };
}

async function buried(
  master: MasterClient,
  { crawl, replay, url }: AskOptions['ask'] & { verb: 'buried' },
): Promise<Answer> {
  if (replay) {
    const answer = await master.request('crawl.replay', { crawl, ...(url ? { url } : {}) });
    return { text: `put ${answer.replayed} back into the task queue`, answer };
  }
  const all: Replies['crawl.buried']['urls'] = [];
  let after: Uint8Array | undefined;
  do {
    const page: Replies['crawl.buried'] = await master.request('crawl.buried', {
      crawl,
      limit: 1000,
      ...(after === undefined ? {} : { after }),
    });
    all.push(...page.urls.filter((row) => url === undefined || row.url === url));
    after = page.next;
  } while (after !== undefined);
  const lines = all.map((row) =>
    [row.kind, row.attempts, row.url, row.message].map((cell) => visible(String(cell))).join('\t'),
  );
  // A 404 is a failure, but is not retried, so it is not buried.
  const none = 'no URL was given up; `failed` lists all failures';
  return { text: lines.length === 0 ? none : lines.join('\n'), answer: all };
}
