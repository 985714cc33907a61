/**
 * Which pages the rules of a crawl may select: known by the URL, and for JSON and XML by what the
 * rules ask of them. So the body of no other page is kept.
 */
import type { FetchSpec } from '../../shared/crawl.ts';
import {
  type FieldRule,
  type Fields,
  type ItemRule,
  placeOf,
  type RowsRule,
  selectorOf,
} from '../../shared/items.ts';
import { isJsonType, isXmlType } from '../../shared/media-types.ts';
import { RuleFault } from './fault.ts';
import { Pattern } from './pattern.ts';

type Target = {
  readonly name: string;
  readonly url: Pattern | undefined;
  readonly readsJson: boolean;
  readonly readsXml: boolean;
};

/** A spec is the same object for all pages of its crawl. */
const known = new WeakMap<FetchSpec, readonly Target[]>();

/** The rules that may select an answer: `type` is its media type, undefined none was sent. */
export function rulesFor(spec: FetchSpec, url: string, type: string | undefined): string[] {
  let targets = known.get(spec);
  if (targets === undefined) {
    targets = Object.entries(spec.items ?? {}).map(([name, item]) => targetOf(name, item));
    known.set(spec, targets);
  }
  const isJson = type !== undefined && isJsonType(type);
  const isXml = type !== undefined && isXmlType(type);
  const follows = spec.follow !== undefined && !isJson && !isXml ? ['follow'] : [];
  const items = targets
    .filter((one) => (isJson ? one.readsJson : isXml ? one.readsXml : true))
    .filter((one) => one.url?.isIn(url) ?? true)
    .map(({ name }) => name);
  return [...items, ...follows];
}

function targetOf(name: string, item: ItemRule): Target {
  const { match, script, article } = item;
  const text = typeof match === 'object' ? match.url : match;
  const kinds = new Set(kindsOf(item));
  return {
    name,
    url: text === undefined ? undefined : patternOf(text),
    // Articles are pages in HTML.
    readsJson: kinds.has('json') && script === undefined && article !== true,
    readsXml: article !== true && (kinds.has('xpath') || (kinds.has('css') && text !== undefined)),
  };
}

/** One that is not valid selects each page: what is wrong with it is said there. */
function patternOf(text: string): Pattern | undefined {
  try {
    return new Pattern(text);
  } catch (error) {
    if (error instanceof RuleFault) return undefined;
    throw error;
  }
}

function* kindsOf({ each, fields, zip }: ItemRule): Generator<string> {
  yield* kindOf(each);
  yield* kindsOfFields(fields);
  yield* kindsOfFields(zip);
}

function* kindsOfFields(fields: Fields | undefined): Generator<string> {
  for (const field of Object.values(fields ?? {})) {
    yield* kindOf(field);
    if (typeof field === 'string') continue;
    yield* kindOf(field.each);
    yield* kindsOfFields(field.fields);
  }
}

function* kindOf(rule: RowsRule | FieldRule | undefined): Generator<string> {
  if (rule === undefined) return;
  const selector = typeof rule === 'string' ? selectorOf(rule) : placeOf(rule);
  if (selector !== undefined) yield selector.kind;
}
