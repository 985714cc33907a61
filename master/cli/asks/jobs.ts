/** `jobs`: the jobs of a master, one of them with its output, or the end of one. */
import { whole } from '../../../shared/cli.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { callText, type JobRow, type JobState } from '../../../shared/jobs.ts';
import type { Replies } from '../../../shared/replies.ts';
import { visible } from '../../../shared/visible.ts';
import { duration } from '../../machine/progress.ts';
import type { Answer, AskMaker, Command, Values } from './asking.ts';
import { table } from './table.ts';

export type JobsAsk = {
  readonly verb: 'jobs';
  /** That one, with its output. */
  readonly job: number | undefined;
  readonly cancel: number | undefined;
  /** Those that have ended, too. */
  readonly all: boolean;
};

const number = whole(1, Number.MAX_SAFE_INTEGER);

export function jobsCommand(
  { make }: AskMaker,
  take: (values: Values, ask: JobsAsk) => void,
): Command {
  return make('jobs', 'list the jobs of exec and run, show one with its output, or cancel one')
    .argument('[job]', 'number of the job to show', number)
    .option('--all', 'list jobs that have ended, too', false)
    .option('--cancel <job>', 'number of the job to end', number)
    .action((job: number | undefined, values: Values) =>
      take(values, {
        verb: 'jobs',
        job,
        cancel: values['cancel'] as number | undefined,
        all: values['all'] === true,
      }),
    );
}

export async function askJobs(master: MasterClient, ask: JobsAsk): Promise<Answer> {
  if (ask.cancel !== undefined) {
    const answer = await master.request('job.cancel', { job: ask.cancel });
    const text = { cancelling: 'is being ended', ended: 'has ended' }[answer.state];
    return { text: `job ${ask.cancel} ${text}`, answer };
  }
  if (ask.job !== undefined) {
    const answer = await master.request('job.get', { job: ask.job });
    const text = (said: typeof answer.stdout) => said && Buffer.from(said.kept).toString();
    const [stdout, stderr] = [text(answer.stdout), text(answer.stderr)];
    // Most output ends with a line feed of its own.
    const said = [stdout, stderr].flatMap((all) => (all ? [all.replace(/\n$/, '')] : []));
    const lines = [...jobsText([answer]), ...said];
    return { text: lines.join('\n'), answer: { ...answer, stdout, stderr } };
  }
  const states: JobState[] | undefined = ask.all ? undefined : ['waiting', 'running'];
  const jobs: JobRow[] = [];
  let after: number | undefined;
  do {
    const page: Replies['job.list'] = await master.request('job.list', {
      limit: 1000,
      ...(states && { states }),
      ...(after !== undefined && { after }),
    });
    jobs.push(...page.jobs);
    after = page.next;
  } while (after !== undefined);
  const none = ask.all ? 'no jobs' : 'no job waits or runs; list those that have ended with --all';
  return { text: jobs.length === 0 ? none : jobsText(jobs).join('\n'), answer: jobs };
}

function jobsText(jobs: readonly JobRow[]): string[] {
  const rows = jobs.map((row) => [
    String(row.job),
    stateText(row),
    row.slave ?? row.on,
    timeText(row),
    visible(callText(row)).slice(0, 80),
    visible(row.reason ?? ''),
  ]);
  return table([['job', 'state', 'slave', 'time', 'command', ''], ...rows]);
}

function stateText({ state, outcome, code, signal }: JobRow): string {
  if (outcome === undefined) return state;
  if (outcome === 'exited') return `exited ${code}`;
  return outcome === 'signal' ? (signal ?? outcome) : outcome;
}

function timeText({ startedAt, ms, state, outcome }: JobRow): string {
  // Nobody can say how long a lost one ran.
  if (startedAt === undefined || outcome === 'lost') return '-';
  return duration(state === 'ended' ? (ms ?? 0) : Math.max(0, Date.now() - startedAt));
}
