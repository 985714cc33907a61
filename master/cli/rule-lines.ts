/** The lines about the rules of a crawl: in `status`, and at its end. */
import { amount, grouped } from '../../shared/amount.ts';
import { type FollowRule, followCount } from '../../shared/follow.ts';
import { fieldsOfRule, type ItemRules } from '../../shared/items.ts';
import { ownRules } from '../../shared/link-rule.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import type { RuleCounts } from '../../shared/rule-results.ts';
import { followText } from './explain.ts';

type Counts = Readonly<Record<string, RuleCounts>>;

const none: RuleCounts = {
  pages: 0,
  matched: 0,
  empty: 0,
  wrong: 0,
  failed: 0,
  rows: 0,
  rejected: 0,
};

const whyFailed = 'their links were not followed; rejected.jsonl says why';

/** A crawl file has fewer rules; a page function names its rows as it likes. */
const linesMax = 100;

/** A line for each rule, for the first ones if there are very many. */
export function ruleLines({ rules = {} }: Pick<CrawlStatus, 'rules'>): string[] {
  const all = Object.entries(rules).filter(([name]) => !name.includes('.'));
  const fields = fieldsByRule(rules);
  const lines = all.slice(0, linesMax).map(([name, counts]) => {
    return `rule ${name}: ${countsText(counts)}${wrongFields(name, fields.get(name), rules)}`;
  });
  const more = all.slice(linesMax);
  if (more.length === 0) return lines;
  const rows = more.reduce((sum, [, counts]) => sum + counts.rows, 0);
  return [...lines, `${amount(more.length, 'more name')} of rows: ${amount(rows, 'row')}`];
}

/** The follow rules of a crawl that ends which found no link on any page; and pages on which they
 *  failed, so that no link of these was followed. */
export function followWarnings(follow: readonly FollowRule[], rules: Counts = {}): string[] {
  const { failed = 0 } = (follow.length > 0 && rules['follow']) || none;
  const faults =
    failed > 0 ? [`the follow rules failed on ${amount(failed, 'page')}: ${whyFailed}`] : [];
  const vain = follow.flatMap((rule, index) => {
    const counts = rules[followCount(index)];
    if (counts === undefined || counts.matched > 0) return [];
    const what = `the follow rule ${index + 1} (${followText(rule)})`;
    return [`${what} never matched: it found no link on ${amount(counts.pages, 'page')}`];
  });
  return [...faults, ...vain];
}

/** The likely mistakes in the rules of a crawl that ends. `unchanged`: pages that it did not read
 *  again, on which the rules were not tried. */
export function ruleWarnings(items: ItemRules, rules: Counts = {}, unchanged = 0): string[] {
  // Nobody wrote the rule of an output of links, and a link needs no `rel`.
  const own = ownRules(items);
  return Object.entries(items).flatMap(([name, item]) => {
    const counts = rules[name] ?? none;
    if (counts.pages === 0) {
      if (unchanged > 0) return [];
      return [`the rule ${name} never matched: no page of the crawl was one that it selects`];
    }
    if (counts.matched === 0) return [`the rule ${name} never matched: ${countsText(counts)}`];
    const failed = counts.failed > 0 ? [`the rule ${name} failed: ${countsText(counts)}`] : [];
    const empty = Object.keys(name in own ? fieldsOfRule(item) : {}).filter(
      (field) => (rules[`${name}.${field}`]?.matched ?? 0) === 0,
    );
    const fields = empty.map((field) => {
      return `the field ${field} of the rule ${name} never had a value: ${countsText(counts)}`;
    });
    return [...failed, ...fields];
  });
}

function countsText({ pages, matched, empty, wrong, failed, rows, rejected }: RuleCounts): string {
  const parts = [
    `${amount(pages, 'page')} tried`,
    `${grouped(matched)} matched`,
    ...(empty > 0 ? [`${grouped(empty)} empty`] : []),
    ...(wrong > 0 ? [`${grouped(wrong)} with a value of a wrong type`] : []),
    ...(failed > 0 ? [`${grouped(failed)} failed`] : []),
    amount(rows, 'row'),
    ...(rejected > 0 ? [`${amount(rejected, 'row')} rejected`] : []),
  ];
  return parts.join(', ');
}

type Fields = readonly (readonly [field: string, counts: RuleCounts])[];

function fieldsByRule(rules: Counts): ReadonlyMap<string, Fields> {
  const all = new Map<string, (readonly [string, RuleCounts])[]>();
  for (const [name, counts] of Object.entries(rules)) {
    const at = name.indexOf('.');
    if (at < 0) continue;
    const [rule, field] = [name.slice(0, at), name.slice(at + 1)];
    const fields = all.get(rule);
    if (fields === undefined) all.set(rule, [[field, counts]]);
    else fields.push([field, counts]);
  }
  return all;
}

function wrongFields(rule: string, fields: Fields | undefined, rules: Counts): string {
  // No page needs links of each follow rule.
  if (rule === 'follow' && rules[followCount(0)] !== undefined) return '';
  const parts = (fields ?? []).flatMap(([field, { pages, matched, wrong }]) => {
    if (wrong > 0) return [`${field} of a wrong type on ${grouped(wrong)}`];
    return matched < pages ? [`${field} missing on ${grouped(pages - matched)}`] : [];
  });
  return parts.length === 0 ? '' : `; ${parts.join(', ')}`;
}
