/** JSONPath on JSON answers and on JSON in pages. Source: RFC 9535. */
import { compile, type JSONPathQuery } from 'json-p3';
import { messageOf } from '../../shared/errors.ts';
import type { Json } from '../../shared/rule-results.ts';
import { RuleFault } from './fault.ts';

export class JsonPath {
  readonly #query: JSONPathQuery;

  /** @throws RuleFault it is not valid, with the reason */
  constructor(text: string) {
    try {
      this.#query = compile(text);
    } catch (error) {
      const [line = ''] = messageOf(error).split('\n');
      throw new RuleFault(`is not JSONPath (RFC 9535): ${line.slice(0, 200)}`);
    }
  }

  /** @throws RuleFault */
  find(from: Json): Json[] {
    try {
      return this.#query.query(from).values() as Json[];
    } catch (error) {
      throw new RuleFault(`JSONPath: ${messageOf(error).slice(0, 200)}`);
    }
  }
}

/** @throws RuleFault it is not JSON */
export function parseJson(text: string): Json {
  try {
    return JSON.parse(text.replace(/^\ufeff/, '')) as Json;
  } catch (error) {
    throw new RuleFault(`is not JSON: ${messageOf(error).slice(0, 200)}`);
  }
}
