/**
 * One kind of task in the slave: the way to fetch its URL, the outcome, and the messages to the
 * master. Everything else (slots, turns, retries, identities) is the same for all kinds.
 */

import type { FetchSpec } from '../../shared/crawl.ts';
import type { Logger } from '../../shared/log.ts';
import type { PageInput } from '../../shared/rule-results.ts';
import type { WebDocument } from '../browser/page-traffic.ts';
import type { RenderedPage } from '../browser/rendering.ts';
import type { FetchPlan } from '../fetch/fetch-plan.ts';
import type { Fetched } from '../fetch/fetched.ts';
import type { FailedOutcome } from '../fetch/outcome.ts';
import type { View } from '../fetch/recording.ts';
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
  /** Its identity logs in first, if the crawl has a login. */
  readonly needsLogin?: true;
  readonly plan: FetchPlan<Body>;
  /** Returns why the slave cannot do a task of that crawl now; undefined: it can. */
  putOff?(spec: FetchSpec): FailedOutcome | undefined;
  /** Returns how many bytes of a body go to the archive whatever its limit is: nothing else keeps
   *  them. */
  archivedBytes?(spec: FetchSpec): number | undefined;
  /** Returns the outcome of a fetch by this plan: an answer, or a failure that releases the
   *  task. */
  outcome(fetched: Fetched<Body>): Found | FailedOutcome;
  /** Returns what rules are to be evaluated on; undefined: no rule selects the page. */
  rulePage?(found: Found): RulePage | undefined;
  /** Work on an answer between its fetch and its report: an image is decoded. */
  complete?(found: Found, spec: FetchSpec, log: Logger): Promise<Found | FailedOutcome>;
  /** Returns the document that a browser is to show; undefined: none. */
  webDocument?(found: Found): WebDocument | undefined;
  /** Is nothing found in it without a browser? `made`: what rules made of it. */
  isBare?(found: Found, made?: Evaluated): boolean;
  /** Reads what the browser made of it; undefined: it is no page any more. */
  reread?(found: Found, page: RenderedPage, spec: FetchSpec): Promise<Found | undefined>;
  /** Returns what is kept of what the browser made of it. */
  views?(found: Found): readonly View[];
  /** Returns the messages to the master about an answer. `made`: what rules made of it. */
  statements(held: Held, found: Found, made?: Evaluated): Statement[];
};
