/**
 * One kind of task in the slave: the way to fetch its URL, the outcome, and the messages to the
 * master. Everything else (slots, turns, retries, identities) is the same for all kinds.
 */

import type { PageInput } from '../../shared/rule-results.ts';
import type { FetchPlan } from '../fetch/fetch-plan.ts';
import type { Fetched } from '../fetch/fetched.ts';
import type { FailedOutcome } from '../fetch/outcome.ts';
import type { Evaluated } from '../rules/fit.ts';
import type { Held, Statement } from '../statements.ts';

/** A page for the rules of its crawl, but for what its task says. `fault`: why they cannot be
 *  evaluated. */
export type RulePage = {
  readonly input: Omit<PageInput, 'url' | 'depth'>;
  readonly fault?: string;
};

/** `Body`: the result of its reader. `Found`: a definite answer. Its functions are methods, so that
 *  kinds of different bodies fit into one list. */
export type Kind<Body = unknown, Found extends { readonly ok: true } = { readonly ok: true }> = {
  /** It starts at once, without a slot, because other tasks wait for it. */
  readonly isUrgent?: true;
  readonly plan: FetchPlan<Body>;
  /** Returns the outcome of a fetch by this plan: an answer, or a failure that releases the
   *  task. */
  outcome(fetched: Fetched<Body>): Found | FailedOutcome;
  /** Returns what rules are to be evaluated on; undefined: no rule selects the page. */
  rulePage?(found: Found): RulePage | undefined;
  /** Returns the messages to the master about an answer. `made`: what rules made of it. */
  statements(held: Held, found: Found, made?: Evaluated): Statement[];
};
