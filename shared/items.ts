/**
 * The rules of a crawl file under `items`: which pages have rows, where the rows are, and the
 * fields of a row. Here are their schema and the meaning of their short forms; the slave evaluates
 * them. The oddities of a rule (`oddities`) need no page: `check` and `try` show it. Source:
 * docs/rules.md.
 */
import * as z from 'zod';
import { articleFields } from './article.ts';

export const ruleLimits = {
  /** Rules of a crawl, and fields of a rule. */
  rulesMax: 50,
  fieldsMax: 200,
  /** Rows within rows. */
  nestingMax: 3,
  expressionChars: 4_096,
  /** All rules of a crawl as JSON: slaves get them, and the crawl's record keeps them. */
  rulesChars: 64 << 10,
  /** Bytes of JSON that are parsed. */
  jsonBytes: 16 << 20,
} as const;

/** Data of a page besides its text. */
const pageValues = ['url', 'finalUrl', 'depth', 'status', 'type'] as const;
const fieldTypes = ['text', 'number', 'integer', 'boolean', 'date', 'url', 'json'] as const;
export type FieldType = (typeof fieldTypes)[number];

const expression = z
  .string({ error: 'must be text; put it into quotes' })
  .min(1, { error: 'must not be empty' })
  .max(ruleLimits.expressionChars, {
    error: `must have at most ${ruleLimits.expressionChars} characters`,
  });
const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()], {
  error: 'must be text, a number, true, false or null',
});
const flag = z.boolean({ error: 'must be true or false' }).optional();
const fieldName = z.string().regex(/^(?!__proto__$)[A-Za-z_][\w-]{0,63}$/, {
  error: 'is not a name: write at most 64 letters (a to z), digits, _ and -',
});
/** zod says `Invalid key in record` of a name, whatever its schema says. */
const recordError = (what: string) => (issue: { code?: string }) =>
  issue.code === 'invalid_key'
    ? 'is not a name: write at most 64 letters (a to z), digits, _ and -'
    : `must be ${what}`;

/** Where something is. `css` may end with `::text`, `::attr(name)` or `::html`. */
const places = {
  css: expression.optional(),
  xpath: expression.optional(),
  /** JSONPath, on a page or a script that is JSON. */
  json: expression.optional(),
  /** A pattern (RE2): of its first group, or of the whole match. With another place it is applied
   *  to each text that is found there. */
  regex: expression.optional(),
};

/** JSON that stands in an element of the page, or that a pattern finds in it. */
const scriptSchema = z.union(
  [
    expression,
    z.strictObject({ css: expression, regex: expression.optional() }, { error: strictError }),
  ],
  { error: 'must be a CSS selector, or {css: …, regex: …}' },
);

const rowsSchema = z.union([expression, z.strictObject(places, { error: strictError })], {
  error: 'must be a selector, or one of {css: …}, {xpath: …}, {json: …}, {regex: …}',
});
export type RowsRule = z.infer<typeof rowsSchema>;
/** A place on a page that stands alone. */
export const selectorSchema = rowsSchema.superRefine((rule, context) => {
  const add: Add = (message, path = []) => context.addIssue({ code: 'custom', message, path });
  if (typeof rule === 'object') checkPlaces(rule, [], add);
});

const fieldOptions = {
  ...places,
  /** A value of the page. */
  value: z.enum(pageValues, { error: `must be one of: ${pageValues.join(', ')}` }).optional(),
  /** A header of the answer. */
  header: z
    .string({ error: 'must be the name of a header' })
    .regex(/^[\w!#$%&'*+.^`|~-]{1,128}$/, { error: 'is not the name of a header' })
    .optional(),
  type: z.enum(fieldTypes, { error: `must be one of: ${fieldTypes.join(', ')}` }).optional(),
  /** Without white space at both ends; default: true. */
  trim: flag,
  /** In place of a value that is missing. */
  default: scalar.optional(),
  /** A row without it is rejected. */
  required: flag,
  /** All values, as a list; default: the first. */
  all: flag,
};

/** Rows within a row are a field, too: a list of objects. */
export type FieldOptions = z.infer<z.ZodObject<typeof fieldOptions>> & {
  each?: RowsRule | undefined;
  fields?: Fields | undefined;
};
export type FieldRule = string | FieldOptions;
export type Fields = { [name: string]: FieldRule };

/** A message for a key that is not known: the keys that are. */
function strictError(issue: { code?: string; keys?: unknown }): string | undefined {
  if (issue.code !== 'unrecognized_keys' || !Array.isArray(issue.keys)) return undefined;
  return `has an unknown key: ${issue.keys.map((key) => JSON.stringify(key)).join(', ')}`;
}

const fieldSchema: z.ZodType<FieldRule> = z.lazy(() =>
  z.union(
    [
      expression,
      z
        .strictObject(
          { ...fieldOptions, each: rowsSchema.optional(), fields: fieldsSchema.optional() },
          { error: strictError },
        )
        .superRefine(checkField),
    ],
    { error: 'must be a selector, or an object such as {css: …, type: number}' },
  ),
);

const fieldsSchema: z.ZodType<Fields> = z
  .record(fieldName, fieldSchema, { error: recordError('names and selectors: {title: h1}') })
  .refine((fields) => Object.keys(fields).length > 0, { error: 'must have at least one field' })
  .refine((fields) => Object.keys(fields).length <= ruleLimits.fieldsMax, {
    error: `must have at most ${ruleLimits.fieldsMax} fields`,
  });

const matchSchema = z.union(
  [
    expression,
    z.strictObject(
      { url: expression.optional(), content: expression.optional() },
      { error: strictError },
    ),
  ],
  { error: 'must be a pattern of URLs, or {url: …, content: …}' },
);

const itemSchema = z
  .strictObject(
    {
      /** Pages whose URL, or content, a pattern (RE2) matches anywhere; default: all pages. */
      match: matchSchema.optional(),
      /** A row each; default: the page is one row. */
      each: rowsSchema.optional(),
      /** JSONPath reads this, not the page. */
      script: scriptSchema.optional(),
      fields: fieldsSchema.optional(),
      /** Columns that are joined to rows; all must have the same length. */
      zip: fieldsSchema.optional(),
      /** The page is an article: a row with the fields of `articleFields`. */
      article: z.literal(true, { error: 'must be true; leave it out for none' }).optional(),
    },
    {
      error: (issue) =>
        issue.code === 'invalid_type'
          ? 'must be a map, such as {fields: {title: h1}}'
          : strictError(issue),
    },
  )
  .superRefine((item, context) => {
    const add = (message: string, path: string[] = []) =>
      context.addIssue({ code: 'custom', message, path });
    if (item.article === true) {
      if (item.each !== undefined) add('has article and each: an article is one row', ['each']);
      if (item.zip !== undefined) add('has article and zip: an article is one row', ['zip']);
    } else if (item.fields === undefined && item.zip === undefined) {
      add('has neither fields nor zip: say what its rows have, for example fields: {title: h1}');
    }
    if (item.zip !== undefined && item.each !== undefined) {
      add('has each and zip: zip makes the rows itself, so leave each out', ['zip']);
    }
    if (typeof item.each === 'object') checkPlaces(item.each, ['each'], add);
    if (nesting(item.fields ?? {}) > ruleLimits.nestingMax) {
      add(`has rows within rows more than ${ruleLimits.nestingMax} deep`, ['fields']);
    }
  });
export type ItemRule = z.infer<typeof itemSchema>;

const ofArticle: Fields = Object.fromEntries(articleFields.map((name) => [name, { type: 'text' }]));

/** All fields of a rule, in their order: a field of its own takes the place of an article's. */
export function fieldsOfRule({ article, zip, fields }: ItemRule): Fields {
  return { ...(article && ofArticle), ...zip, ...fields };
}

/** A rule asks for articles, which not each slave finds. */
export function hasArticle(items: ItemRules | undefined): boolean {
  return items !== undefined && Object.values(items).some(({ article }) => article === true);
}

/** The rules of a crawl, by their names. */
export const itemsSchema = z
  .record(fieldName, itemSchema, {
    error: recordError('rules by their names; leave it out for none'),
  })
  .refine((items) => Object.keys(items).length <= ruleLimits.rulesMax, {
    error: `must have at most ${ruleLimits.rulesMax} rules`,
  })
  .refine((items) => JSON.stringify(items).length <= ruleLimits.rulesChars, {
    error: `must have at most ${ruleLimits.rulesChars} characters in all`,
  });
export type ItemRules = z.infer<typeof itemsSchema>;

type Place = { css?: unknown; xpath?: unknown; json?: unknown; regex?: unknown };
type Add = (message: string, path?: string[]) => void;

/** One of css, xpath and json, or a regex alone. */
function checkPlaces(rule: Place, path: string[], add: Add): void {
  const given = (['css', 'xpath', 'json'] as const).filter((key) => rule[key] !== undefined);
  if (given.length > 1) add(`has ${given.join(' and ')}: leave all but one out`, path);
  if (given.length === 0 && rule.regex === undefined) {
    add('says no place: give it css, xpath, json or regex', path);
  }
}

function checkField(field: FieldOptions, context: z.RefinementCtx): void {
  const add: Add = (message, path = []) => context.addIssue({ code: 'custom', message, path });
  const { each, fields, value, header } = field;
  if ((each === undefined) !== (fields === undefined)) {
    add('has one of each and fields: rows within a row need both');
    return;
  }
  if (typeof each === 'object') checkPlaces(each, ['each'], add);
  const places = ['css', 'xpath', 'json', 'regex'] as const;
  const isPlaced = places.some((key) => field[key] !== undefined);
  const sources = [each !== undefined, value !== undefined, header !== undefined, isPlaced];
  const count = sources.filter(Boolean).length;
  // A pattern may take a part of a value of the page.
  const isPart = count === 2 && isPlaced && field.css === undefined && field.xpath === undefined;
  const isAllowed = count === 1 || (isPart && each === undefined && field.json === undefined);
  if (count === 0) add('says no place: give it css, xpath, json, regex, value or header');
  else if (!isAllowed) add('has more than one of: a selector, value, header, each');
  else if (isPlaced && value === undefined && header === undefined) checkPlaces(field, [], add);
}

function nesting(fields: Fields): number {
  let deepest = 0;
  for (const field of Object.values(fields)) {
    if (typeof field === 'string' || field.fields === undefined) continue;
    deepest = Math.max(deepest, 1 + nesting(field.fields));
  }
  return deepest;
}

/** A selector in its long form. */
export type Selector = { readonly kind: 'css' | 'xpath' | 'json' | 'regex'; readonly text: string };

/** The meaning of a short form: `$…` is JSONPath, `/…`, `./…`, `(/…`, `@…` and
 *  `count(…)` are XPath, and
 *  everything else is CSS. */
export function selectorOf(text: string): Selector {
  const trimmed = text.trim();
  if (trimmed.startsWith('$')) return { kind: 'json', text: trimmed };
  if (/^(?:\.{0,2}\/|\(+\s*\.{0,2}\/|@|\.{1,2}$|[a-z-]+\()/.test(trimmed))
    return { kind: 'xpath', text: trimmed };
  return { kind: 'css', text: trimmed };
}

/** The selector of an object; undefined: none but a pattern, or a value of the page. */
export function placeOf(rule: Place): Selector | undefined {
  for (const kind of ['css', 'xpath', 'json'] as const) {
    const text = rule[kind];
    if (typeof text === 'string') return { kind, text: text.trim() };
  }
  return undefined;
}

/** Likely mistakes in rules that are valid, with the path of each. */
export function oddities(items: ItemRules): { path: string[]; message: string }[] {
  const found: { path: string[]; message: string }[] = [];
  const look = (rule: RowsRule | FieldRule | undefined, path: string[], row: RowKind) => {
    if (rule === undefined) return;
    const selector = typeof rule === 'string' ? selectorOf(rule) : placeOf(rule);
    if (selector === undefined) return;
    for (const message of odditiesOf(selector, row)) found.push({ path, message });
  };
  const walk = (fields: Fields | undefined, path: string[], row: RowKind) => {
    for (const [name, field] of Object.entries(fields ?? {})) {
      look(field, [...path, name], row);
      if (typeof field === 'string' || field.each === undefined) continue;
      look(field.each, [...path, name, 'each'], row);
      walk(field.fields, [...path, name, 'fields'], rowKindOf(field.each));
    }
  };
  for (const [name, item] of Object.entries(items)) {
    look(item.each, [name, 'each'], 'page');
    walk(item.fields, [name, 'fields'], item.each === undefined ? 'page' : rowKindOf(item.each));
    walk(item.zip, [name, 'zip'], 'page');
  }
  return found;
}

/** Where a field is searched; `part`: an element, or what only a page shows. */
type RowKind = 'page' | 'part' | 'json' | 'text';

const partOfElement = {
  css: /::\s*[a-z-]+\s*(?:\([^)]*\)\s*)?$/,
  xpath: /(?:@[\w:.-]+|text\(\s*\))$/,
} as const;

function rowKindOf(each: RowsRule): RowKind {
  const selector = typeof each === 'string' ? selectorOf(each) : placeOf(each);
  if (selector === undefined || (typeof each === 'object' && each.regex !== undefined))
    return 'text';
  const { kind, text } = selector;
  if (kind === 'json') return 'json';
  return (kind === 'css' || kind === 'xpath') && partOfElement[kind].test(text) ? 'text' : 'part';
}

function odditiesOf({ kind, text }: Selector, row: RowKind): string[] {
  const found: string[] = [];
  const isInRow = row !== 'page';
  if (kind === 'css' || kind === 'xpath') {
    const name = kind === 'css' ? 'CSS' : 'XPath';
    if (row === 'json') found.push(`is ${name}, but the rows are JSON: write JSONPath ($…)`);
    if (row === 'text')
      found.push(`is ${name}, but the rows are texts: let each find elements, or use regex`);
  }
  if ((kind === 'xpath' || kind === 'css') && /(?:^|[/>\s])tbody\b/.test(text)) {
    found.push(
      'has tbody: browsers add it to each table, pages often have none; leave it out, as in //table//tr',
    );
  }
  if (kind !== 'xpath') return found;
  if (/^\/html\b/.test(text)) {
    found.push(
      'begins with /html: such a path from a browser breaks with each change of the page; use //tag[@class="…"]',
    );
  }
  if (isInRow && /^\(*\s*\/(?!html\b)/.test(text)) {
    found.push('searches the whole page, not the row; write .// to search the row');
  }
  return found;
}
