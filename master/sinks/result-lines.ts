/** Records as the sinks write them: the values of their fields, and a line of JSON. */
import {
  type FieldName,
  fieldsOf,
  type LineKind,
  recordKinds,
  resultFields,
} from '../../shared/result-fields.ts';
import { visibleJson } from '../../shared/visible.ts';
import { type Content, contentOf, type Section } from '../store/result-rows.ts';

type Values = { [N in FieldName]?: unknown };
type Reader = (content: Content) => unknown;

/** A field of a line. Without `read`, its value is taken as a slave reported it, or as the master
 *  knows it. */
type Column = { readonly name: FieldName; readonly isReported: boolean; readonly read?: Reader };

/** Fields whose values are not taken as they are; undefined: the line has none. */
const readers: { readonly [N in FieldName]?: Reader } = {
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

const columns = new Map(recordKinds.map((kind) => [kind, columnsOf(kind as LineKind)]));

/** The values of a record about a URL, in the order of their fields; `at` is Unix time in ms. */
export function valuesOf(section: Section): Values {
  const content = contentOf(section);
  const { record, reported } = content;
  const result: Values | undefined = reported.result;
  const known: Values = record;
  const values: Values = {};
  // No spread of objects here: that takes four times as long.
  for (const { name, isReported, read } of columns.get(section.kind) ?? []) {
    const value = read ? read(content) : isReported ? result?.[name] : known[name];
    if (value !== undefined) values[name] = value;
  }
  return values;
}

/** One object of JSON, with its line feed. */
export function lineOf(section: Section): string {
  const values = valuesOf(section);
  values.at = new Date(Number(values.at)).toISOString();
  // What sites and slaves say may end up on a terminal, or in an editor.
  return `${visibleJson(JSON.stringify(values))}\n`;
}

function columnsOf(kind: LineKind): Column[] {
  return fieldsOf(kind).map((name) => {
    const read = (kind === 'failed' ? failureReaders : readers)[name];
    return { name, isReported: 'schema' in resultFields[name], ...(read && { read }) };
  });
}
