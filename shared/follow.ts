/**
 * The follow rules of a crawl file: which links of a page are followed, in place of all of them.
 * The slave evaluates them, beside the rules of items. Source: docs/crawl-files.md, [T-92].
 */
import * as z from 'zod';
import { ruleLimits } from './items.ts';

export const followLimits = { rulesMax: 20, linksMax: 10_000 } as const;

const expression = z
  .string({ error: 'must be text; put it into quotes' })
  .min(1, { error: 'must not be empty' })
  .max(ruleLimits.expressionChars, { error: 'is too long' })
  .optional();

const places = ['css', 'xpath', 'href', 'regex'] as const;

const mapFault = 'must be a map, such as {css: a.next}';
const followRule = z
  .strictObject(
    {
      /** Links, or what holds links. */
      css: expression,
      xpath: expression,
      /** A pattern (RE2) of the addresses of links, as written or absolute. */
      href: expression,
      /** A pattern (RE2) over the source of the page: its first group, or the whole match. */
      regex: expression,
      /** For a crawl of `order: priority`; default: that of the page. */
      priority: z
        .int({ error: 'must be a whole number' })
        .min(-1000, { error: 'must be from -1000 to 1000' })
        .max(1000, { error: 'must be from -1000 to 1000' })
        .optional(),
      pick: z
        .enum(['all', 'first', 'random'], { error: 'must be all, first or random' })
        .optional(),
      /** How many are picked; default: all, or 1. */
      count: z
        .int({ error: 'must be a whole number' })
        .min(1, { error: 'must be 1 or more' })
        .max(followLimits.linksMax, { error: `must be at most ${followLimits.linksMax}` })
        .optional(),
      /** Another seed is another choice. */
      seed: z.int({ error: 'must be a whole number' }).optional(),
    },
    { error: ({ code }) => (code === 'invalid_type' ? mapFault : undefined) },
  )
  .refine((rule) => places.filter((place) => rule[place] !== undefined).length === 1, {
    error: `must have one of ${places.join(', ')}`,
  });

export const followSchema = z
  .array(followRule, { error: 'must be a list of rules such as {css: a.next}' })
  .min(1, { error: 'must have a rule; leave it out to follow all links' })
  .max(followLimits.rulesMax, { error: `must have at most ${followLimits.rulesMax} rules` });
export type FollowRule = z.infer<typeof followRule>;

/** The name under which a rule is counted, as if it were a field of the rule `follow`. */
export function followCount(index: number): string {
  return `follow.rule-${index + 1}`;
}

/** Links of one priority; without one, that of the page. */
export type FollowedLinks = {
  readonly priority: number | undefined;
  /** Absolute. */
  readonly urls: readonly string[];
};
