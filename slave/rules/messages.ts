/** The messages between a slave and its child for rules, over the channel between them. */
import type {
  CrawlRulesGiven,
  PageInput,
  RuleProblem,
  RuleResult,
} from '../../shared/rule-results.ts';

/** Files of the packages that find articles, absolute, or why there are none. */
export type ArticlePackages =
  | { readonly readability: string; readonly linkedom: string }
  | { readonly missing: string };

/** `id` comes back in the answer; 0: nobody waits for it. */
export type ToChild =
  | ({
      readonly do: 'compile';
      readonly id: number;
      readonly set: number;
      /** Where a rule asks for articles. */
      readonly packages?: ArticlePackages | undefined;
    } & CrawlRulesGiven)
  | { readonly do: 'forget'; readonly set: number }
  /** The page function in this file is called with each page from now on. */
  | { readonly do: 'load'; readonly id: number; readonly path: string }
  | {
      readonly do: 'page';
      readonly id: number;
      /** 0: no rules. */
      readonly set: number;
      readonly page: PageInput;
      readonly jsonBytesMax: number;
      /** It is no page of a crawl: the page function is not called. */
      readonly isBare?: boolean;
    };

export type FromChild =
  | { readonly is: 'ready' }
  | { readonly is: 'compiled'; readonly id: number; readonly problems: readonly RuleProblem[] }
  | { readonly is: 'loaded'; readonly id: number }
  | { readonly is: 'done'; readonly id: number; readonly result: RuleResult }
  | { readonly is: 'failed'; readonly id: number; readonly message: string };
