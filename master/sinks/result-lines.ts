/** Records as the sinks write them: the values of their fields, and a line of JSON. */
import { type ImageType, imageMediaTypes } from '../../shared/images.ts';
import {
  type FieldName,
  fieldsOf,
  type LineKind,
  recordKinds,
  resultFields,
} from '../../shared/result-fields.ts';
import { visibleJson } from '../../shared/visible.ts';
import { requestMark } from '../store/records.ts';
import { type Content, contentOf, itemsOf, type Section } from '../store/result-rows.ts';

type Values = { [N in FieldName]?: unknown };
type Reader = (content: Content) => unknown;

/** A field of a line. Without `read`, its value is taken as a slave reported it, or as the master
 *  knows it. */
type Column = {
  readonly name: FieldName;
  /** The name as JSON, with its colon. */
  readonly key: string;
  readonly isReported: boolean;
  readonly read?: Reader;
};

/** Fields whose values are not taken as they are; undefined: the line has none. */
const readers: { readonly [N in FieldName]?: Reader } = {
  method: ({ record: { url } }) => (url.includes(requestMark) ? 'POST' : undefined),
  // 0: nothing was asked.
  status: ({ reported: { result } }) => result?.status || undefined,
  unchanged: ({ reported: { result } }) => (result?.status === 304 ? true : undefined),
  ms: ({ reported: { result } }) => result && Math.round(result.ms),
  images: ({ reported }) => reported.images,
  redirectedTo: ({ record, reported }) => record.redirectedTo ?? reported.result?.redirectedTo,
  error({ record: { error, attempts }, reported: { result } }) {
    return result?.error ? { ...result.error, attempts } : error;
  },
};
/** The same of a failure: where nothing was asked no answer has bytes, or a type. */
const failureReaders: typeof readers = {
  ...readers,
  type: ({ reported: { result } }) => (result?.status ? result.type : undefined),
  bytes: ({ reported: { result } }) => (result?.status ? result.bytes : undefined),
};

/** Of an image, what the slave found out is said, not what the answer said of itself. */
const imageReaders: typeof readers = {
  ...readers,
  ...Object.fromEntries(
    (['sha256', 'file', 'entry', 'thumbnail', 'width', 'height', 'dhash', 'group'] as const).map(
      ofImage,
    ),
  ),
  ...Object.fromEntries(
    (['creator', 'credit', 'copyright', 'license', 'optOut', 'fault'] as const).map(ofImage),
  ),
  type({ record: { image }, reported: { result } }) {
    const type = image?.['type'] as ImageType | undefined;
    return type === undefined ? result?.type : imageMediaTypes[type];
  },
};

function ofImage(name: FieldName): [FieldName, Reader] {
  return [name, ({ record: { image } }) => image?.[name]];
}

const readersOf: { readonly [K in LineKind]?: typeof readers } = {
  failed: failureReaders,
  image: imageReaders,
};

const columns = new Map(recordKinds.map((kind) => [kind, columnsOf(kind as LineKind)]));

/** The values of a record about a URL, in the order of their fields; `at` is Unix time in ms. */
export function valuesOf(section: Section): Values {
  const content = contentOf(section);
  const values: Values = {};
  for (const column of columns.get(section.kind) ?? []) {
    const value = fieldOf(column, content);
    if (value !== undefined) values[column.name] = value;
  }
  return values;
}

/** One object of JSON, with its line feed. Every page has one, so it is put together from texts:
 *  `JSON.stringify` of `valuesOf` takes twice as long. */
export function lineOf(section: Section): string {
  const content = contentOf(section);
  let line = '';
  for (const column of columns.get(section.kind) ?? []) {
    const value = column.name === 'at' ? timeOf(content.record.at) : fieldOf(column, content);
    if (value === undefined) continue;
    line += `${line === '' ? '{' : ','}${column.key}${jsonOf(value)}`;
  }
  return `${line}}\n`;
}

/** The lines of a section: one, or as many as it has items. */
export function linesOf(section: Section): string {
  return section.kind === 'item' ? itemLinesOf(section) : lineOf(section);
}

/** Those of its items, from an index on. The parts that all rows of a page share are made once. */
export function itemLinesOf(section: Section, first = 0): string {
  const { url, at } = contentOf(section).record;
  const head = `{"url":${jsonOf(url)},"rule":`;
  const tail = `,"at":"${timeOf(at)}"}\n`;
  const rows = itemsOf(section);
  let lines = '';
  for (let i = first; i < rows.length; i++) {
    const [rule, item] = rows[i] ?? ['', {}];
    lines += `${head}${jsonOf(rule)},"item":${jsonOf(item)}${tail}`;
  }
  return lines;
}

function fieldOf({ name, isReported, read }: Column, content: Content): unknown {
  if (read !== undefined) return read(content);
  const values: Values | undefined = isReported ? content.reported.result : content.record;
  return values?.[name];
}

/** Text of sites and slaves may end up on a terminal, or in an editor. */
function jsonOf(value: unknown): string {
  if (typeof value === 'number') return `${value}`;
  if (typeof value === 'string' && isPlain.test(value)) return `"${value}"`;
  return visibleJson(JSON.stringify(value));
}
/** ASCII that JSON takes as it is. */
const isPlain = /^[ !#-[\]-~]*$/;

/** The last second and its text: records come in the order of their time, mostly. */
let last = { second: Number.NaN, text: '' };

/** As `toISOString`, which takes most of the time of a line. */
function timeOf(atMs: number): string {
  // The clock has parts of a millisecond.
  const at = Math.floor(atMs);
  const second = Math.floor(at / 1000);
  if (last.second !== second) {
    last = { second, text: new Date(second * 1000).toISOString().slice(0, -4) };
  }
  return `${last.text}${String(at - second * 1000).padStart(3, '0')}Z`;
}

function columnsOf(kind: LineKind): Column[] {
  return fieldsOf(kind).map((name) => {
    const read = (readersOf[kind] ?? readers)[name];
    const key = `${JSON.stringify(name)}:`;
    return { name, key, isReported: 'schema' in resultFields[name], ...(read && { read }) };
  });
}
