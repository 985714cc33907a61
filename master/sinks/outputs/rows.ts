/**
 * Records as rows of an output: which records it takes, which columns they have, and of which type.
 * A row has the number of its record, which names it within its crawl for ever.
 */
import type { OutputRecords } from '../../../shared/outputs.ts';
import {
  type FieldName,
  fieldsOf,
  type LineKind,
  type RecordKind,
  resultFields,
} from '../../../shared/result-fields.ts';
import { imageUrlsOf, type Section } from '../../store/result-rows.ts';
import { valuesOf } from '../result-lines.ts';

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
  all: lineKinds,
};

/** The columns of an output, in their order. */
export function columnsOf(records: OutputRecords): Column[] {
  if (records === 'images') return [{ name: 'url', type: 'text' }];
  const kinds = kindsOf[records] as readonly LineKind[];
  const names = new Set(kinds.flatMap((kind) => fieldsOf(kind)));
  const inOrder = (Object.keys(resultFields) as FieldName[]).filter((name) => names.has(name));
  return inOrder.map((name) => ({ name, type: resultFields[name].type }));
}

/** The rows that these records are to an output, in their order. */
export function rowsOf(records: OutputRecords, sections: readonly Section[]): Row[] {
  const kinds = kindsOf[records];
  const rows: Row[] = [];
  for (const section of sections) {
    if (!kinds.includes(section.kind)) continue;
    if (section.kind === 'image-url') {
      for (const [i, url] of imageUrlsOf(section).entries()) {
        rows.push({ seq: section.seq + i, values: { url } });
      }
      continue;
    }
    const values: Record<string, unknown> = valuesOf(section);
    values['at'] = new Date(Number(values['at'])).toISOString();
    rows.push({ seq: section.seq, values });
  }
  return rows;
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
