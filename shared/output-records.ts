/** The kinds of records that an output takes, and the fields that these have. */
import type { OutputRecords } from './outputs.ts';
import {
  type FieldName,
  fieldsOf,
  type LineKind,
  type RecordKind,
  resultFields,
} from './result-fields.ts';

const lineKinds: readonly LineKind[] = [
  ...(['page', 'other', 'redirect', 'failed', 'blocked', 'excluded', 'sitemap'] as const),
];
export const kindsOfRecords: Readonly<Record<OutputRecords, readonly RecordKind[]>> = {
  pages: ['page'],
  images: ['image-url'],
  failed: ['failed', 'blocked'],
  items: ['item'],
  rejected: ['rejected'],
  links: ['item'],
  downloads: ['image'],
  all: lineKinds,
};

/** In the order of lines. Those of items are the fields of their rules. */
export function fieldsOfRecords(records: Exclude<OutputRecords, 'items' | 'links'>): FieldName[] {
  if (records === 'images') return ['url'];
  const kinds = kindsOfRecords[records] as readonly LineKind[];
  const names = new Set(kinds.flatMap((kind) => fieldsOf(kind)));
  return (Object.keys(resultFields) as FieldName[]).filter((name) => names.has(name));
}
