/**
 * The statements about tasks, for the master, when a fetch has ended. Each kind of task makes its
 * own; the parts that all kinds share are here: the result of a URL with its findings, and a
 * failure. Pure. Source: PROTOCOL.md [T-11].
 */
import { packValue } from '../shared/frame.ts';
import type { ImageFacts } from '../shared/images.ts';
import type { PageItems } from '../shared/page-items.ts';
import type { TaskPush } from '../shared/protocol.ts';
import type { Said, Verb } from '../shared/requests.ts';
import type { FailedOutcome, FetchOutcome } from './fetch/outcome.ts';
import type { ArchivedExchange, Recording } from './fetch/recording.ts';

/** A newer master may know more kinds of tasks. */
export const unknownKind = {
  ok: false,
  error: { kind: 'protocol', message: 'not known to this slave' },
} as const;
export const unable = { ...unknownKind, isPutOff: true } as const;
export const internalError = {
  ok: false,
  error: { kind: 'protocol', message: 'internal error' },
} as const;

/** The fields that name the task in a statement. */
export type Held = Pick<TaskPush, 'task' | 'lease'>;

/** The requests that name a task and its lease, and end it. */
type TaskVerb = Exclude<
  { [V in Verb]: Said[V] extends Held ? V : never }[Verb],
  'task.archive' | 'task.known' | 'task.content'
>;
type Body<V extends TaskVerb> = Omit<Said[V], 'verb' | 'id'>;
type Of<V extends TaskVerb> = {
  readonly verb: V;
  readonly body: Body<V>;
  /** About what it holds in memory. */
  readonly bytes: number;
  /** Sent before it, for the archive. */
  readonly exchanges?: readonly ArchivedExchange[];
  /** Sent before it, if the master does not have it. */
  readonly image?: { readonly digest: Uint8Array; readonly bytes: Buffer };
};
export type Statement = { [V in TaskVerb]: Of<V> }[TaskVerb];

/** Bytes of a statement besides its strings and buffers. */
const ownBytes = 512;

/** `bytes`: of the strings and byte strings in its body, about. */
export function statement<V extends TaskVerb>(verb: V, body: Body<V>, bytes: number): Of<V> {
  return { verb, body, bytes: bytes + ownBytes };
}

/** `items`: what the rules of the crawl made of the page; `follow`: links of other priorities. */
export function report(
  { task, lease }: Held,
  { result, images, links }: Extract<FetchOutcome, { ok: true }>,
  items?: PageItems,
  follow: NonNullable<Said['task.report']['follow']> = [],
): Statement {
  const packed = { result: packValue(result), images: packValue(images) };
  const bytes = packed.result.length + packed.images.length + links.length;
  const body = { task, lease, ...packed, links };
  if (items === undefined) return statement('task.report', body, bytes);
  const rows = packValue(items);
  const more = follow.reduce((sum, one) => sum + one.links.length, 0);
  const said = { ...body, items: rows, ...(follow.length > 0 && { follow }) };
  return statement('task.report', said, bytes + rows.length + more);
}

/** An image; `facts` undefined: the answer is none; `content`: its bytes. */
export function imageStatement(
  { task, lease }: Held,
  result: Uint8Array,
  facts?: ImageFacts,
  content?: Buffer,
): Statement {
  const packed = facts && packValue(facts);
  const body = { task, lease, result, ...(packed && { image: packed }) };
  const bytes = result.length + (packed?.length ?? 0) + (content?.length ?? 0);
  const said = statement('task.image', body, bytes);
  if (content === undefined || facts?.sha256 === undefined) return said;
  return { ...said, image: { digest: facts.sha256, bytes: content } };
}

/** Returns the statements about a task whose fetch has ended. `ofAnswer`: those of its kind. */
export function ofOutcome<Found extends { readonly ok: true }>(
  { task, lease }: Held,
  outcome: Found | FailedOutcome,
  recording: Recording | undefined,
  ofAnswer: (held: Held, found: Found) => Statement[],
): Statement[] {
  const held = { task, lease };
  if (outcome.ok) return withArchive(ofAnswer(held, outcome), recording);
  const failure = [ofFailure(held, outcome)];
  return outcome.isPutOff === true ? failure : withArchive(failure, recording);
}

/** Returns the statements about a task, the last one with what was asked and answered in its fetch;
 *  `recording` is undefined if that is not wanted. */
function withArchive(statements: Statement[], recording: Recording | undefined): Statement[] {
  const last = statements.at(-1);
  if (last === undefined || recording === undefined) return statements;
  const { exchanges } = recording;
  const bytes = exchanges.reduce((sum, one) => sum + one.bytes + one.response.length, last.bytes);
  const body = { ...last.body, archived: exchanges.length };
  const whole = { ...last, body, bytes, exchanges } as Statement;
  return [...statements.slice(0, -1), whole];
}

/** The task is given back. */
export function ofFailure({ task, lease }: Held, failed: FailedOutcome): Statement {
  const { error, retryAfterMs, isPutOff, isFinal } = failed;
  const wait = retryAfterMs ? { retryAfterMs } : {};
  const why = isPutOff ? {} : { error, ...(isFinal ? { final: true } : {}) };
  return statement('task.release', { task, lease, ...why, ...wait }, 0);
}
