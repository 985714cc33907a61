/**
 * Seeds with a body: `{url, method: POST, json | form, headers}` in a crawl file.
 * Source: docs/crawl-files.md; PROTOCOL.md [C-100].
 */
import { headerSchema, requestLimits } from '../../shared/crawl.ts';
import { messageOf } from '../../shared/errors.ts';
import type { SeedRequest } from '../../shared/requests.ts';
import { seedUrl } from './crawl-options.ts';
import { type Fault, rangeOf, rangesIn } from './seed-range.ts';

type Settings = Readonly<Record<string, unknown>>;

const keys = ['url', 'method', 'json', 'form', 'headers'];
const headersMax = 32;

/** Returns the requests of such a seed: one for each URL and each body of its ranges.
 *  @throws ConfigError */
export function* requestsOf(
  settings: Settings,
  at: readonly PropertyKey[],
  fault: Fault,
): Generator<SeedRequest> {
  const strange = Object.keys(settings).find((key) => !keys.includes(key));
  if (strange !== undefined) {
    throw fault([...at, strange], `is no key of a seed with url: it has ${keys.join(', ')}`);
  }
  const { url, method = 'POST' } = settings;
  if (method !== 'POST') {
    throw fault([...at, 'method'], 'must be POST; a URL without more is asked for by GET');
  }
  if (typeof url !== 'string')
    throw fault([...at, 'url'], 'must be a URL, in quotes if it has a {');
  const headers = headersOf(settings, at, fault);
  const hasType = headers.some(([name]) => /^content-type$/i.test(name));
  for (const text of rangeOf(url, (why) => fault([...at, 'url'], why))) {
    let href: string;
    try {
      href = seedUrl(text, false);
    } catch (error) {
      throw fault([...at, 'url'], messageOf(error));
    }
    for (const { type, body } of bodiesOf(settings, at, fault)) {
      if (body.length > requestLimits.bytesMax) {
        throw fault(at, `has a body of ${body.length} bytes; at most ${requestLimits.bytesMax}`);
      }
      const own = hasType ? headers : [['content-type', type] as [string, string], ...headers];
      yield { url: href, method, headers: own, body };
    }
  }
}

/** One for each value of its ranges. @throws ConfigError */
function* bodiesOf({ json, form }: Settings, at: readonly PropertyKey[], fault: Fault) {
  if ((json === undefined) === (form === undefined)) {
    throw fault(at, 'must have either json or form: the body that is sent');
  }
  const key = json === undefined ? 'form' : 'json';
  const why = (text: string) => fault([...at, key], text);
  for (const value of rangesIn(json === undefined ? form : json, json !== undefined, why)) {
    yield json === undefined
      ? {
          type: 'application/x-www-form-urlencoded',
          body: Buffer.from(formText(value, [...at, 'form'], fault)),
        }
      : { type: 'application/json', body: Buffer.from(JSON.stringify(value)) };
  }
}

/** Names and values as a form of a browser sends them. @throws ConfigError */
function formText(form: unknown, at: readonly PropertyKey[], fault: Fault): string {
  if (typeof form !== 'object' || form === null || Array.isArray(form)) {
    throw fault(at, 'must be names and values: {q: shoes, page: 1}');
  }
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(form)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (!['string', 'number', 'boolean'].includes(typeof one)) {
        throw fault([...at, name], 'must be text, a number, true or false, or a list of these');
      }
      text.append(name, String(one));
    }
  }
  return text.toString();
}

function headersOf(
  { headers = {} }: Settings,
  at: readonly PropertyKey[],
  fault: Fault,
): [string, string][] {
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) {
    throw fault([...at, 'headers'], 'must be names and values: {X-Api: "2"}');
  }
  const given = Object.entries(headers).map(([name, value]): [string, string] => {
    const isText = ['string', 'number', 'boolean'].includes(typeof value);
    if (!isText) throw fault([...at, 'headers', name], 'must be text, a number, true or false');
    const parsed = headerSchema.safeParse([name, String(value)]);
    if (parsed.success) return parsed.data;
    throw fault([...at, 'headers', name], parsed.error.issues[0]?.message ?? 'is not a header');
  });
  if (given.length > headersMax) throw fault([...at, 'headers'], `has more than ${headersMax}`);
  return given;
}
