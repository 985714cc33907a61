/** The part of an answer that rules are evaluated on: its text, and what the fetcher knows of
 *  it. */
import type { PageInput } from '../../shared/rule-results.ts';
import { fieldsOf } from '../fetch/content.ts';
import type { Fetched } from '../fetch/fetched.ts';

type Answered = Pick<Extract<Fetched<unknown>, { kind: 'body' }>, 'result' | 'headers'>;

/** Of a page at depth 0. */
export function pageInput(url: string, { result, headers }: Answered, text: string): PageInput {
  const named = Object.keys(headers).map((name) => [name, fieldsOf(headers, name).join(', ')]);
  return {
    url,
    finalUrl: result.finalUrl,
    depth: 0,
    status: result.status,
    type: result.type ?? 'text/html',
    headers: Object.fromEntries(named) as Record<string, string>,
    text,
  };
}
