/** Records as the sinks write them: the values of their fields, and a line of JSON. */
import { decodeValue } from '../../shared/frame.ts';
import type { Result } from '../../shared/requests.ts';
import {
  type FieldName,
  fieldsOf,
  type LineKind,
  recordKinds,
} from '../../shared/result-fields.ts';
import { visibleJson } from '../../shared/visible.ts';
import { decodeRecord, type Section } from '../store/result-rows.ts';

type Values = { [N in FieldName]?: unknown };

const fields = new Map(recordKinds.map((kind) => [kind, fieldsOf(kind as LineKind)]));

/** The values of a record about a URL; `at` is Unix time in ms. Which of them its line has is told
 *  by `fieldsOf`. */
export function valuesOf(section: Section): Values {
  const { result, images, attempts, task: _, ...known } = decodeRecord(section);
  if (result === undefined) return known;
  const reported = decodeValue(result) as Result;
  const { status, error, ms } = reported;
  const values: Values = { ...reported, ...known, ms: Math.round(ms) };
  if (status === 304) values.unchanged = true;
  if (error !== undefined) values.error = { ...error, attempts };
  if (images !== undefined) values.images = decodeValue(images);
  if (status === 0) {
    values.status = undefined;
    // Nothing was asked: no answer has bytes, or a type.
    if (section.kind === 'failed') {
      values.type = undefined;
      values.bytes = undefined;
    }
  }
  return values;
}

/** One object of JSON, with its line feed. */
export function lineOf(section: Section): string {
  const values = valuesOf(section);
  let text = '';
  for (const name of fields.get(section.kind) ?? []) {
    const value = values[name];
    if (value === undefined) continue;
    const json = JSON.stringify(name === 'at' ? new Date(Number(value)).toISOString() : value);
    text += `${text === '' ? '{' : ','}"${name}":${json}`;
  }
  // What sites and slaves say may end up on a terminal, or in an editor.
  return `${visibleJson(text)}}\n`;
}
