/**
 * Records as rows of an output: which records it takes, which columns they have, and of which type.
 * A row has the number of its record, which names it within its crawl for ever.
 */
import {
  type FieldRule,
  type FieldType,
  fieldsOfRule,
  type ItemRules,
} from '../../../shared/items.ts';
import { linkRuleName, ownRules } from '../../../shared/link-rule.ts';
import { fieldsOfRecords, kindsOfRecords } from '../../../shared/output-records.ts';
import {
  columnKinds,
  type NamedOutput,
  type OutputKind,
  type OutputRecords,
  tableNameOf,
} from '../../../shared/outputs.ts';
import { resultFields } from '../../../shared/result-fields.ts';
import { imageUrlsOf, itemsOf, type Section } from '../../store/result-rows.ts';
import { valuesOf } from '../result-lines.ts';
import type { SinkCrawl } from '../sink.ts';

export type Row = { readonly seq: number; readonly values: Readonly<Record<string, unknown>> };
/** `real`: any number; `time`: text as RFC 3339; `json`: an object or a list. */
export type ColumnType = 'text' | 'integer' | 'real' | 'boolean' | 'json' | 'time';
export type Column = { readonly name: string; readonly type: ColumnType };

const itemTypes: Readonly<Record<FieldType, ColumnType>> = {
  text: 'text',
  number: 'real',
  integer: 'integer',
  boolean: 'boolean',
  date: 'text',
  url: 'text',
  json: 'json',
};

/** Those whose columns take no value of another type. */
const strictKinds: readonly OutputKind[] = ['postgres', 'mysql', 'parquet'];

type Values = Readonly<Record<string, unknown>>;
/** Of the fields that have no column. */
const restColumn = 'item';
const loose: readonly Column[] = [
  { name: 'rule', type: 'text' },
  { name: restColumn, type: 'json' },
];

/** Outputs of crawls, by their names, that have had rows with fields that the rules do not have: of
 *  page functions and programs. They have the column for these from then on. */
const rests = new WeakMap<SinkCrawl, Set<string>>();

/** Columns of such a name are asked for in each item: those that have none would have a function
 *  of JavaScript there. */
const inherited: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype));

/** The part of a crawl that an output takes. */
export class RowSource {
  readonly #crawl: SinkCrawl;
  readonly #records: OutputRecords;
  readonly #rule: string | undefined;
  /** Links that another output takes are no items of this one. */
  readonly #isWithoutLinks: boolean;
  readonly #fixed: readonly Column[];
  /** Chosen by the operator. */
  readonly #chosen: readonly string[] | undefined;
  /** Rows have columns; else they are objects. */
  readonly #isTable: boolean;
  readonly #isStrict: boolean;
  readonly #name: string;

  constructor(crawl: SinkCrawl, output: NamedOutput) {
    const { kind, name, records: given = 'pages', rule, columns } = output;
    this.#name = name;
    // Links are items of a rule of their own.
    const records = given === linkRuleName ? 'items' : given;
    this.#crawl = crawl;
    this.#records = records;
    this.#rule = given === linkRuleName ? linkRuleName : rule;
    const all = crawl.spec?.fetch?.items ?? {};
    this.#isWithoutLinks = this.#rule === undefined && ownRules(all) !== all;
    this.#fixed = records === 'items' ? [] : fixedColumns(records);
    this.#chosen = columns;
    this.#isTable = columnKinds.includes(kind);
    this.#isStrict = strictKinds.includes(kind);
  }

  /** Name of a table of the rows. */
  get name(): string {
    const names = Object.keys(this.#rules);
    const [only] = names.length === 1 ? names : [this.#rule];
    return tableNameOf(this.#records, only);
  }

  /** The columns, in their order: those of items are the fields of the rules of now, or chosen
   *  ones. Nobody says the fields of items without rules: of page functions and programs. */
  get columns(): readonly Column[] {
    if (this.#records !== 'items') return this.#fixed;
    const known = this.#known;
    if (this.#chosen === undefined) {
      if (known.length === 0 && this.#isTable) return loose;
      return this.#hasRest ? [...known, { name: restColumn, type: 'json' }] : known;
    }
    return this.#chosen.map((name) => {
      const column = known.find((one) => one.name === name);
      return column ?? { name, type: name === restColumn ? 'json' : 'text' };
    });
  }

  /** The fields of the rules. */
  get #known(): readonly Column[] {
    const columns = new Map<string, ColumnType>();
    for (const item of Object.values(this.#rules)) {
      for (const [name, rule] of Object.entries(fieldsOfRule(item))) {
        const type = typeOf(rule);
        const before = columns.get(name);
        columns.set(name, before === undefined || before === type ? type : 'text');
      }
    }
    return [...columns].map(([name, type]) => ({ name, type }));
  }

  /** The rows that these records are, in their order. They may need a further column. */
  rowsOf(sections: readonly Section[]): Row[] {
    const fit = this.#records === 'items' && this.#isTable ? this.#fitting() : undefined;
    const kinds = kindsOfRecords[this.#records];
    const rows: Row[] = [];
    for (const section of sections) {
      if (!kinds.includes(section.kind)) continue;
      if (section.kind === 'image-url') {
        for (const [i, url] of imageUrlsOf(section).entries()) {
          rows.push({ seq: section.seq + i, values: { url } });
        }
      } else if (section.kind === 'item') {
        let { seq } = section;
        for (const [rule, values] of itemsOf(section)) {
          if (this.#takes(rule)) {
            rows.push({ seq, values: fit === undefined ? values : fit(rule, values) });
          }
          seq++;
        }
      } else {
        const values: Record<string, unknown> = valuesOf(section);
        values['at'] = new Date(Number(values['at'])).toISOString();
        rows.push({ seq: section.seq, values });
      }
    }
    return rows;
  }

  /** Makes the values of a row of those of an item: what has no column of its own, or is not of the
   *  type of its column, goes to the column for the rest. Operators who choose columns leave that
   *  out, unless they name it. */
  #fitting(): (rule: string, item: Values) => Values {
    const { columns } = this;
    if (columns === loose) return (rule, item) => ({ rule, item });
    const fit = this.#withRest(columns);
    if (!columns.some(({ name }) => inherited.has(name))) return fit;
    return (rule, item) => Object.assign(Object.create(null), fit(rule, item)) as Values;
  }

  #withRest(columns: readonly Column[]): (rule: string, item: Values) => Values {
    const isWanted = this.#chosen === undefined || this.#chosen.includes(restColumn);
    const isTaken = this.#known.some(({ name }) => name === restColumn);
    const hasRest = isWanted && !isTaken;
    const types = new Map(columns.map(({ name, type }) => [name, type] as const));
    return (_, item) => {
      let values = item;
      let rest: Record<string, unknown> | undefined;
      for (const name in item) {
        const value = item[name];
        const type = hasRest && name === restColumn ? undefined : types.get(name);
        if (type !== undefined) {
          const own = this.#isStrict ? valueFor(type, value) : value;
          if (own === value) continue;
          values = { ...values, [name]: own };
          // Text such as `12` is the number.
          if (own !== null) continue;
        }
        if (!hasRest) continue;
        rest ??= {};
        rest[name] = value;
      }
      if (rest === undefined) return values;
      this.#noteRest();
      return { ...values, [restColumn]: rest };
    };
  }

  get #hasRest(): boolean {
    return rests.get(this.#crawl)?.has(this.#name) === true;
  }

  #noteRest(): void {
    const known = rests.get(this.#crawl);
    if (known === undefined) rests.set(this.#crawl, new Set([this.#name]));
    else known.add(this.#name);
  }

  #takes(rule: string): boolean {
    if (this.#rule !== undefined) return rule === this.#rule;
    return !(this.#isWithoutLinks && rule === linkRuleName);
  }

  get #rules(): ItemRules {
    const all = this.#crawl.spec?.fetch?.items ?? {};
    if (this.#rule === undefined) return ownRules(all);
    const rule = Object.hasOwn(all, this.#rule) ? all[this.#rule] : undefined;
    return rule === undefined ? {} : { [this.#rule]: rule };
  }
}

function fixedColumns(records: Exclude<OutputRecords, 'items' | 'links'>): Column[] {
  return fieldsOfRecords(records).map((name) => ({ name, type: resultFields[name].type }));
}

/** Of a field of a rule. Without a type of its own it may be anything. */
function typeOf(rule: FieldRule): ColumnType {
  if (typeof rule === 'string') return 'text';
  const { all, each, type, value } = rule;
  if (all || each !== undefined) return 'json';
  if (type !== undefined) return itemTypes[type];
  return value === 'depth' || value === 'status' ? 'integer' : 'text';
}

/** A value as a column of this type takes it; null: it does not. Those of rules are of their type:
 *  this is about page functions and programs that have a field of the same name. */
function valueFor(type: ColumnType, value: unknown): unknown {
  if (value === null || value === undefined) return value;
  switch (type) {
    case 'real':
    case 'integer': {
      const is = typeof value === 'string' && numeral.test(value) ? Number(value) : value;
      const fits = type === 'real' ? typeof is === 'number' : Number.isSafeInteger(is);
      return fits ? is : null;
    }
    case 'boolean':
      if (value === 'true' || value === 'false') return value === 'true';
      return typeof value === 'boolean' ? value : null;
    default:
      return value;
  }
}
const numeral = /^-?\d{1,15}(?:\.\d{1,15})?$/;

/** Text as databases take it: no NUL, no half of a character. */
export function wellFormed(text: string): string {
  return odd.test(text) ? text.replace(odds, '\ufffd') : text;
}
const odd = /\0|[\ud800-\udfff]/u;
const odds = /\0|[\ud800-\udfff]/gu;

/** JSON as databases take it: the same of all texts in it, keys included. */
export function wellFormedJson(value: unknown): string {
  const text = JSON.stringify(value);
  if (!oddEscape.test(text)) return text;
  // A backslash before the escape may be escaped itself.
  return text.replace(escapes, (all, isOdd) => (isOdd === undefined ? all : '\ufffd'));
}
/** Half of a character is the only one of its kind that JSON writes as an escape. */
const oddEscape = /\\u(?:0000|d[89a-f])/;
const escapes = /\\(?:(u0000|ud[89a-f]..)|.)/g;

/** A value as a database without types for it has it: JSON of objects and lists. In a column of
 *  text a number is the text that it is elsewhere: databases have their own ideas (`1.0`, `1e+15`).
 *  A number that JSON does not have is none. */
export function plainOf(value: unknown, type?: ColumnType): string | number | boolean | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string') return wellFormed(value);
  if (typeof value === 'number' || typeof value === 'boolean') {
    if (!Number.isFinite(Number(value))) return null;
    return type === 'text' ? String(value) : value;
  }
  return wellFormedJson(value);
}
