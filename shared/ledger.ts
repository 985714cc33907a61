/** The ledger of a crawl on the wire: what became of its URLs, and whether a recount agrees. */

/** How the task of a URL ended, in the order of the numbers on record; `dropped`: its crawl was
 *  cancelled or removed. */
export const ledgerOutcomes = [
  'pages',
  'redirects',
  'others',
  'failed',
  'excluded',
  'buried',
  'dropped',
] as const;

/** The outcomes of the URLs of one kind of task: `admitted` is the sum of the others, without
 *  `replayed`. [C-50] */
export type LedgerRow = {
  admitted: number;
  waiting: number;
  pages: number;
  redirects: number;
  others: number;
  failed: number;
  excluded: number;
  buried: number;
  dropped: number;
  /** Buried URLs that were tried again. */
  replayed: number;
};

/** The findings of a recount of a crawl's rows and lines. [C-77] */
export type LedgerCheck = {
  crawl: string;
  /** Rows and lines that were counted. */
  rows: number;
  lines: number;
  /** Numbers that are not as they were counted; none: the ledger is right. */
  differs: readonly LedgerDifference[];
  /** Files that are not as they were left, in words. */
  missing?: readonly string[];
  /** Names of files that a rotation has closed and that are not there now: numbers of lines that
   *  may be in them were not compared. */
  moved?: readonly string[];
  /** The crawl has no ledger: nothing was counted. */
  uncounted?: true;
};
export type LedgerDifference = { what: string; ledger: number; counted: number };
