/** JSONPath on JSON answers and on JSON in pages. Source: RFC 9535. */
import { JSONPathEnvironment, type JSONPathQuery } from 'json-p3';
import { messageOf } from '../../shared/errors.ts';
import type { Json } from '../../shared/rule-results.ts';
import { parsePageJson } from '../page-json.ts';
import { NotJson, RuleFault } from './fault.ts';

/** As deep as pages may be. By default it is 50, and answers with replies to replies are deeper. */
const levelsMax = 2_000;
const environment = new JSONPathEnvironment({ maxRecursionDepth: levelsMax });

export class JsonPath {
  readonly #query: JSONPathQuery;

  /** @throws RuleFault it is not valid, with the reason */
  constructor(text: string) {
    try {
      this.#query = environment.compile(text);
    } catch (error) {
      const [line = ''] = messageOf(error).split('\n');
      throw new RuleFault(`is not JSONPath (RFC 9535): ${line.slice(0, 200)}`);
    }
  }

  /** @throws RuleFault */
  find(from: Json): Json[] {
    try {
      // In one piece json-p3 puts a list of some 125,000 on the stack.
      return Array.from(this.#query.lazyQuery(from), ({ value }) => value as Json);
    } catch (error) {
      throw new RuleFault(`JSONPath: ${messageOf(error).slice(0, 200)}`);
    }
  }
}

/** Integers that a number of JavaScript cannot hold, such as the ids of posts, are texts with all
 *  their digits. @throws NotJson */
export function parseJson(text: string): Json {
  try {
    return (exactly(text) ?? parsePageJson(text)) as Json;
  } catch (error) {
    throw new NotJson(`is not JSON: ${messageOf(error).slice(0, 200)}`);
  }
}

/** undefined: without such integers, or no JSON: a comment may have a quote. */
function exactly(text: string): unknown {
  const quoted = withDigits(text);
  if (quoted === text) return undefined;
  try {
    return parsePageJson(quoted);
  } catch {
    return undefined;
  }
}

/** Digits of the shortest integer that a number may not hold. */
const digitsMin = 16;

/** The text with quotes around integers that a number cannot hold. Looks at each 16th character
 *  alone until one is a digit. */
function withDigits(text: string): string {
  let quoted = '';
  let copied = 0;
  let isInString = false;
  let quote = text.indexOf('"');
  for (let at = digitsMin - 1; at < text.length; at += digitsMin) {
    if (!isDigit(text.charCodeAt(at))) continue;
    let first = at;
    while (isDigit(text.charCodeAt(first - 1))) first--;
    let end = at + 1;
    while (isDigit(text.charCodeAt(end))) end++;
    if (end - first < digitsMin) continue;
    at = end;
    for (; quote >= 0 && quote < first; quote = text.indexOf('"', quote + 1)) {
      if (!isInString || !isEscaped(text, quote)) isInString = !isInString;
    }
    const start = text[first - 1] === '-' ? first - 1 : first;
    const around = text.slice(Math.max(0, start - 1), start) + text.slice(end, end + 1);
    // A part of a string, or of a number with a point or an exponent.
    if (isInString || /[.eE+]/.test(around)) continue;
    const digits = text.slice(start, end);
    if (Number.isSafeInteger(Number(digits))) continue;
    quoted += `${text.slice(copied, start)}"${digits}"`;
    copied = end;
  }
  return copied === 0 ? text : quoted + text.slice(copied);
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === '\\') first--;
  return (at - first) % 2 === 1;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}
