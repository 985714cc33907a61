/**
 * The form of a login page, as the rules of items read it, and the request that it makes with the
 * fields of the operator: what a browser would send. Pure. Source: HTML Standard, "Constructing the
 * entry list"; docs/login.md.
 */
import type { TaskRequest } from '../shared/crawl.ts';
import type { FieldRule, ItemRules } from '../shared/items.ts';
import type { Login } from '../shared/login.ts';
import type { Json, RuleResult, Values } from '../shared/rule-results.ts';
import { canonicalUrl, isRelatedHost } from '../shared/url.ts';

type LoginRequest = {
  /** Canonical. */
  readonly url: string;
  /** Undefined: the form is sent by GET. */
  readonly request: TaskRequest | undefined;
};

/** Longer than any login; above it a page is not one. */
const bodyBytesMax = 64 << 10;

const text = (xpath: string): FieldRule => ({ xpath, trim: false });
const count = (xpath: string): FieldRule => ({ xpath: `count(${xpath})` });

/** The rules that read a page before or after a login: its forms as `form`, and as `until` a row
 *  for each place where that is. */
export function loginRules({ form, until }: Pick<Login, 'form' | 'until'>): ItemRules {
  const options = {
    each: { xpath: './/option' },
    fields: {
      value: text('@value'),
      has: count('@value'),
      text: { xpath: 'normalize-space(.)' },
      selected: count('@selected'),
      disabled: count('@disabled | parent::optgroup/@disabled'),
    },
  };
  const inputs = {
    each: { xpath: './/input | .//select | .//textarea | .//button' },
    fields: {
      tag: { xpath: 'name()' },
      name: text('@name'),
      type: { xpath: '@type' },
      value: text('@value'),
      text: text('.'),
      checked: count('@checked'),
      disabled: count('@disabled | ancestor::fieldset/@disabled'),
      multiple: count('@multiple'),
      options,
    },
  };
  const fields: Record<string, FieldRule> = {
    page: { value: 'finalUrl' },
    action: { xpath: '@action', type: 'url' },
    method: { xpath: '@method' },
    inputs,
  };
  return {
    form: { each: form ?? { xpath: '//form' }, fields },
    until: { each: until, fields: { page: { value: 'finalUrl' } } },
  };
}

/** Was the mark of success found? */
export function isLoggedIn({ rows }: RuleResult): boolean {
  return rows.some(({ rule }) => rule === 'until');
}

/** The request that logs in from a page at `pageUrl`, or why there is none, in words. Only the host
 *  of the login, or one above or below it, gets it, and nobody in clear what was asked for with
 *  TLS. */
export function loginRequest(
  login: Login,
  { rows }: RuleResult,
  pageUrl: string,
): LoginRequest | string {
  const forms = rows.filter(({ rule }) => rule === 'form').map(({ values }) => values);
  const names = Object.keys(login.fields);
  const hasAll = (form: Values) => {
    const known = inputsOf(form).map(({ name }) => name);
    return names.every((name) => known.includes(name));
  };
  // A form that the operator names may lack fields that a script adds.
  const form = login.form === undefined ? forms.find(hasAll) : forms[0];
  if (form === undefined) {
    return forms.length === 0
      ? 'the page has no such form'
      : `no form of the page has the fields ${names.join(', ').slice(0, 200)}`;
  }
  const target = canonicalUrl(typeof form['action'] === 'string' ? form['action'] : pageUrl);
  if (target === undefined) return 'the form leads to no http or https URL';
  const away = leadsAway(new URL(login.url), new URL(pageUrl), target);
  if (away !== undefined) return away;
  const body = new URLSearchParams([...entriesOf(form, login.fields)]).toString();
  if (body.length > bodyBytesMax) return `the form has more than ${bodyBytesMax} bytes`;
  if (typeof form['method'] !== 'string' || form['method'].toLowerCase() !== 'post') {
    target.search = body;
    return { url: target.href, request: undefined };
  }
  const type = ['content-type', 'application/x-www-form-urlencoded'] as const;
  const headers = [type, ['origin', new URL(pageUrl).origin], ['referer', pageUrl]] as const;
  return { url: target.href, request: { method: 'POST', headers, body: Buffer.from(body) } };
}

/** Why a form must not be sent there; undefined: it may. */
function leadsAway(login: URL, page: URL, target: URL): string | undefined {
  for (const { hostname } of [page, target]) {
    if (isRelatedHost(hostname, login.hostname)) continue;
    return `it leads to another host, ${hostname}; if that is right, give its page as the url`;
  }
  const isSecret = login.protocol === 'https:' || page.protocol === 'https:';
  if (isSecret && target.protocol !== 'https:') return 'the form would be sent without TLS';
  return undefined;
}

/** Names and values in the order of the form, then what the form lacks. */
function* entriesOf(
  form: Values,
  fields: Readonly<Record<string, string>>,
): Generator<[string, string]> {
  const given = new Map(Object.entries(fields));
  const done = new Set<string>();
  let isSubmitted = false;
  for (const input of inputsOf(form)) {
    const { name, kind } = input;
    const value = given.get(name);
    if (name !== '' && value !== undefined) {
      // Of several with a name, such as radio buttons, the given value counts once.
      if (!done.has(name)) yield [name, value];
      done.add(name);
      continue;
    }
    const isButton = kind === 'submit';
    if (isButton && isSubmitted) continue;
    isSubmitted ||= isButton;
    if (name === '' || input.isDisabled) continue;
    for (const own of input.values) yield [name, own];
  }
  for (const [name, value] of given) if (!done.has(name)) yield [name, value];
}

type Input = {
  readonly name: string;
  /** The type of an `input` or `button`; else the name of the element. */
  readonly kind: string;
  readonly isDisabled: boolean;
  /** The value that it sends if nobody touches it. */
  readonly values: readonly string[];
};

function inputsOf(form: Values): Input[] {
  return rowsIn(form['inputs']).map((row) => {
    const tag = textOf(row['tag']);
    const type = textOf(row['type']).toLowerCase();
    const isButton = tag === 'button';
    const kind = tag === 'input' ? type || 'text' : isButton ? type || 'submit' : tag;
    return {
      name: textOf(row['name']),
      kind,
      isDisabled: isSome(row['disabled']),
      values: valuesOf(kind, row),
    };
  });
}

function valuesOf(kind: string, row: Values): string[] {
  switch (kind) {
    case 'checkbox':
    case 'radio':
      return isSome(row['checked']) ? [textOf(row['value']) || 'on'] : [];
    case 'select': {
      const options = rowsIn(row['options']);
      const isOpen = (option: Values) => !isSome(option['disabled']);
      let chosen = options.filter((option) => isSome(option['selected']));
      if (!isSome(row['multiple'])) {
        // Of several the last one; without one, the first that may be chosen.
        chosen = chosen.length > 0 ? chosen.slice(-1) : options.filter(isOpen).slice(0, 1);
      }
      return chosen
        .filter(isOpen)
        .map((option) => textOf(isSome(option['has']) ? option['value'] : option['text']));
    }
    case 'textarea':
      return [textOf(row['text'])];
    case 'button':
    case 'file':
    case 'image':
    case 'reset':
      return [];
    default:
      return [textOf(row['value'])];
  }
}

function rowsIn(value: Json | undefined): Values[] {
  if (!Array.isArray(value)) return [];
  return value.filter(
    (one) => typeof one === 'object' && one !== null && !Array.isArray(one),
  ) as Values[];
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

function isSome(value: Json | undefined): boolean {
  return Number(value ?? 0) > 0;
}
