/** The results of rules for a page, and of a trial of rules: between a slave, its child, and the
 *  commands `check` and `try` of the master. Types only. Source: docs/rules.md. */
import type { BodyEnd } from './archive.ts';
import type { FetchSpec } from './crawl.ts';
import type { FollowedLinks, FollowRule } from './follow.ts';
import type { ItemRules } from './items.ts';

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** A slave's data about an answer. */
export type PageInput = {
  readonly url: string;
  readonly finalUrl: string;
  readonly depth: number;
  readonly status: number;
  /** The media type, in lower case. */
  readonly type: string;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The decoded body. */
  readonly text: string;
};

export type Values = { [name: string]: Json };
/** The counts of a rule. A page counts once for a rule: as matched, empty or failed. For a
 *  field, a page with a value in some row is matched. `wrong`: pages with a value that is not
 *  of its type. */
export type RuleCounts = {
  pages: number;
  matched: number;
  empty: number;
  wrong: number;
  failed: number;
  rows: number;
  rejected: number;
};
type RuleRow = { readonly rule: string; readonly values: Values };
/** A row without something that is required. */
type RejectedRow = RuleRow & { readonly why: string };
type RuleFailure = { readonly rule: string; readonly message: string };
export type RuleResult = {
  rows: RuleRow[];
  rejected: RejectedRow[];
  failures: RuleFailure[];
  /** Of the rules that select the page (`book`), and of their fields (`book.price`). */
  counts: Record<string, RuleCounts>;
  /** URLs to follow, besides the links of the page: absolute, as they were found. */
  links?: string[];
  /** The links to follow in place of those of the page: a crawl with follow rules has them. */
  follow?: FollowedLinks[];
};
/** A rule that is not valid: the path to it below `items`, and why. `isMissing`: it is valid, but
 *  cannot be evaluated on this machine, which lacks a package. */
export type RuleProblem = {
  readonly path: readonly string[];
  readonly message: string;
  readonly isMissing?: true;
};

/** The outcome of a page; `failed`: the reason, in words. */
export type RuleOutcome = { readonly result: RuleResult } | { readonly failed: string };

/** The rules of a crawl file. */
export type CrawlRulesGiven = {
  readonly items: ItemRules;
  readonly follow?: readonly FollowRule[] | undefined;
};

/** Asked of slave.js by the master's `check` and `try`; `id` comes back in the answer. */
export type TrialRequest =
  | ({ readonly do: 'check'; readonly id: number } & CrawlRulesGiven)
  | {
      readonly do: 'robots';
      readonly id: number;
      readonly url: string;
      readonly fetch: FetchSpec;
      /** Private blocks that the operator's URL opens. */
      readonly blocks: readonly string[];
    }
  | {
      readonly do: 'page';
      readonly id: number;
      readonly url: string;
      readonly fetch: FetchSpec;
      /** Private blocks that the operator's URL opens. */
      readonly blocks: readonly string[];
      readonly items: ItemRules;
      readonly follow?: readonly FollowRule[] | undefined;
      readonly jsonBytesMax: number;
      /** Texts of other types are read, too. */
      readonly anyText?: boolean;
      /** It is shown in a browser, if the crawl wants that. */
      readonly isRendered?: boolean;
    }
  | {
      readonly do: 'sitemap';
      readonly id: number;
      readonly url: string;
      readonly fetch: FetchSpec;
      readonly blocks: readonly string[];
    }
  /** The input of `replay`. */
  | {
      readonly do: 'learn';
      readonly id: number;
      readonly fetch: FetchSpec;
    }
  | ({ readonly do: 'replay'; readonly id: number } & ArchivedAnswer)
  /** The answer to `turn`. */
  | { readonly do: 'go' }
  | { readonly do: 'leave' };

/** The answer of a URL, and what the rules made of it. */
export type TrialPage = {
  readonly status: number;
  readonly finalUrl: string;
  readonly ms: number;
  readonly bytes: number;
  readonly type?: string | undefined;
  readonly charset?: string | undefined;
  readonly cut?: boolean;
  /** A redirect that is not followed. */
  readonly redirectedTo?: string | undefined;
  /** There was no answer, or none of a type that rules read. */
  readonly error?: string;
  readonly rules?: RuleOutcome;
  /** In a browser: what it asked for, and what the page lacked. */
  readonly rendered?: { readonly requests: number; readonly missed: readonly string[] };
  /** The crawl would show it in a browser, and here is none: why. */
  readonly unrendered?: string;
  /** Elements `tbody` in the page. */
  readonly tbodies?: number;
};

/** An answer as an archive has it. */
export type ArchivedAnswer = {
  /** The URL that was asked for, and its task: another URL, if the task was redirected. */
  readonly url: string;
  readonly task: string;
  readonly depth: number;
  /** Status line and headers. */
  readonly head: string;
  readonly body: Uint8Array;
  readonly end: BodyEnd;
};

/** The report that a crawl would make of an answer. */
export type ReplayedPage = {
  readonly isPage: boolean;
  readonly isNoindex: boolean;
  readonly finalUrl: string;
  readonly canonical?: string | undefined;
  /** `PageItems` in msgpack, as a slave reports them. */
  readonly items?: Uint8Array;
};

/** The URLs in a sitemap; of an index, sitemaps. */
export type TrialSitemap = {
  /** As a slave reports it. */
  readonly kind: string;
  readonly urls: readonly string[];
  /** A limit or an error ended the reading early. */
  readonly cut: boolean;
  readonly status: number;
  readonly redirectedTo?: string | undefined;
  /** There was no answer. */
  readonly error?: string;
};

export type TrialReply =
  | { readonly is: 'ready' }
  | { readonly is: 'checked'; readonly id: number; readonly problems: readonly RuleProblem[] }
  | {
      readonly is: 'robots';
      readonly id: number;
      readonly answer:
        | { readonly status: number; readonly body: Uint8Array }
        | { readonly kind: string; readonly message: string };
    }
  | { readonly is: 'page'; readonly id: number; readonly page: TrialPage }
  | { readonly is: 'sitemap'; readonly id: number; readonly sitemap: TrialSitemap }
  | { readonly is: 'learned'; readonly id: number; readonly fault: string | undefined }
  | { readonly is: 'replayed'; readonly id: number; readonly page: ReplayedPage }
  /** May this redirect be followed? `waits`: after the delay of the host. */
  | { readonly is: 'turn'; readonly url: string; readonly waits?: boolean }
  | { readonly is: 'failed'; readonly id: number; readonly message: string };

/** The first argument of slave.js that makes it answer to these. */
export const trialArgument = 'trial';
