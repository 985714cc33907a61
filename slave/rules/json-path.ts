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

/** @throws NotJson */
export function parseJson(text: string): Json {
  try {
    return parsePageJson(text) as Json;
  } catch (error) {
    throw new NotJson(`is not JSON: ${messageOf(error).slice(0, 200)}`);
  }
}
