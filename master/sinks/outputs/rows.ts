/**
 * Records as rows of an output: which records it takes, which columns they have, and of which type.
 * A row has the number of its record, which names it within its crawl for ever.
 */
import type { FieldRule, FieldType, ItemRules } from '../../../shared/items.ts';
import type { NamedOutput, OutputRecords } from '../../../shared/outputs.ts';
import {
  type FieldName,
  fieldsOf,
  type LineKind,
  type RecordKind,
  resultFields,
} from '../../../shared/result-fields.ts';
import { contentOf, imageUrlsOf, type Section } from '../../store/result-rows.ts';
import { valuesOf } from '../result-lines.ts';
import type { SinkCrawl } from '../sink.ts';

export type Row = { readonly seq: number; readonly values: Readonly<Record<string, unknown>> };
/** `real`: any number; `time`: text as RFC 3339; `json`: an object or a list. */
export type ColumnType = 'text' | 'integer' | 'real' | 'boolean' | 'json' | 'time';
export type Column = { readonly name: string; readonly type: ColumnType };

const lineKinds: readonly LineKind[] = [
  ...(['page', 'other', 'redirect', 'failed', 'blocked', 'excluded', 'sitemap'] as const),
];
const kindsOf: Readonly<Record<OutputRecords, readonly RecordKind[]>> = {
  pages: ['page'],
  images: ['image-url'],
  failed: ['failed', 'blocked'],
  items: ['item'],
  rejected: ['rejected'],
  all: lineKinds,
};
const itemTypes: Readonly<Record<FieldType, ColumnType>> = {
  text: 'text',
  number: 'real',
  integer: 'integer',
  boolean: 'boolean',
  date: 'text',
  url: 'text',
  json: 'json',
};

/** What an output takes of a crawl. */
export class RowSource {
  readonly #crawl: SinkCrawl;
  readonly #records: OutputRecords;
  readonly #rule: string | undefined;
  readonly #fixed: readonly Column[];

  constructor(crawl: SinkCrawl, { records = 'pages', rule }: NamedOutput) {
    this.#crawl = crawl;
    this.#records = records;
    this.#rule = rule;
    this.#fixed = records === 'items' ? [] : fixedColumns(records);
  }

  /** What a table of the rows is called. */
  get name(): string {
    if (this.#records !== 'items') return this.#records;
    const names = Object.keys(this.#rules);
    const [only] = names.length === 1 ? names : [this.#rule];
    return (only ?? 'items').replaceAll('-', '_');
  }

  /** The columns, in their order: those of items are the fields of the rules of now. */
  get columns(): readonly Column[] {
    if (this.#records !== 'items') return this.#fixed;
    const columns = new Map<string, ColumnType>();
    for (const { fields, zip } of Object.values(this.#rules)) {
      for (const [name, rule] of Object.entries({ ...zip, ...fields })) {
        const type = typeOf(rule);
        const before = columns.get(name);
        columns.set(name, before === undefined || before === type ? type : 'text');
      }
    }
    return [...columns].map(([name, type]) => ({ name, type }));
  }

  /** The rows that these records are, in their order. */
  rowsOf(sections: readonly Section[]): Row[] {
    const kinds = kindsOf[this.#records];
    const rows: Row[] = [];
    for (const section of sections) {
      if (!kinds.includes(section.kind)) continue;
      if (section.kind === 'image-url') {
        for (const [i, url] of imageUrlsOf(section).entries()) {
          rows.push({ seq: section.seq + i, values: { url } });
        }
      } else if (section.kind === 'item') {
        const { rule, item } = contentOf(section).record;
        if (item !== undefined && (this.#rule === undefined || rule === this.#rule)) {
          rows.push({ seq: section.seq, values: item });
        }
      } else {
        const values: Record<string, unknown> = valuesOf(section);
        values['at'] = new Date(Number(values['at'])).toISOString();
        rows.push({ seq: section.seq, values });
      }
    }
    return rows;
  }

  get #rules(): ItemRules {
    const all = this.#crawl.spec?.fetch?.items ?? {};
    if (this.#rule === undefined) return all;
    const rule = all[this.#rule];
    return rule === undefined ? {} : { [this.#rule]: rule };
  }
}

function fixedColumns(records: OutputRecords): Column[] {
  if (records === 'images') return [{ name: 'url', type: 'text' }];
  const kinds = kindsOf[records] as readonly LineKind[];
  const names = new Set(kinds.flatMap((kind) => fieldsOf(kind)));
  const inOrder = (Object.keys(resultFields) as FieldName[]).filter((name) => names.has(name));
  return inOrder.map((name) => ({ name, type: resultFields[name].type }));
}

/** Of a field of a rule. Without a type of its own it may be anything. */
function typeOf(rule: FieldRule): ColumnType {
  if (typeof rule === 'string') return 'text';
  const { all, each, type, value } = rule;
  if (all || each !== undefined) return 'json';
  if (type !== undefined) return itemTypes[type];
  return value === 'depth' || value === 'status' ? 'integer' : 'text';
}

/** Text as databases take it: no NUL, no half of a character. */
export function wellFormed(text: string): string {
  return odd.test(text) ? text.replace(odds, '\ufffd') : text;
}
const odd = /\0|[\ud800-\udfff]/u;
const odds = /\0|[\ud800-\udfff]/gu;

/** A value as a database without types for it has it: JSON of objects and lists. */
export function plainOf(value: unknown): string | number | boolean | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string') return wellFormed(value);
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  return wellFormed(JSON.stringify(value));
}
