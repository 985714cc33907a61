/**
 * What the slave knows of one kind of task: how its URL is fetched, what came of that, and what the
 * master is told. Everything else (slots, turns, retries, visitors) is the same for all kinds.
 */

import type { FetchPlan } from '../fetch/fetch-plan.ts';
import type { Fetched } from '../fetch/fetched.ts';
import type { FailedOutcome } from '../fetch/outcome.ts';
import type { Held, Statement } from '../statements.ts';

/** `Body`: what its reader makes of a body. `Found`: a definite answer.
 *  Its functions are methods, so that kinds of different bodies fit into one list. */
export type Kind<Body = unknown, Found extends { readonly ok: true } = { readonly ok: true }> = {
  /** It begins at once, without a slot: others wait for it. */
  readonly isUrgent?: true;
  readonly plan: FetchPlan<Body>;
  /** What a fetch by this plan means: an answer, or a failure that gives the task back. */
  outcome(fetched: Fetched<Body>): Found | FailedOutcome;
  /** What the master is told of an answer. */
  statements(held: Held, found: Found): Statement[];
};
