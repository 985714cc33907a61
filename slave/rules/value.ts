/** The values of fields: types, and what is empty. Pure. Source: docs/rules.md, "Types". */
import type { FieldType } from '../../shared/items.ts';
import type { Json } from '../../shared/rule-results.ts';
import { parseUrl } from '../../shared/url.ts';

/** A value that is not of its type. A class: what stands on a page is never one. */
class Wrong {
  readonly wrong: string;

  constructor(text: string, what: string) {
    this.wrong = `${JSON.stringify(text.slice(0, 80))} is not ${what}`;
  }
}

export function isWrong(value: unknown): value is Wrong {
  return value instanceof Wrong;
}

/** White space as HTML and Unicode have it; JavaScript's trim leaves U+200B. */
export function trimmed(text: string): string {
  return text.replace(/^[\s\u200b\ufeff]+|[\s\u200b\ufeff]+$/g, '');
}

/** Nothing was found, or nothing in it. */
export function isEmpty(value: Json | undefined): boolean {
  return value === undefined || value === null || value === '' || Number.isNaN(value);
}

/** `1234.5`, `-3`, `1e6`, and thousands in groups: `1,234.50`. */
const number = /^[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?$|^[+-]?\.\d+$/;
const mailDate =
  /^(?:[A-Z][a-z]{2}, )?\d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)? (?:GMT|UTC|[+-]\d{4})$/;
const yes = new Set(['true', 'yes', '1', 'on']);
const no = new Set(['false', 'no', '0', 'off']);
const monthNames =
  'january february march april may june july august september october november december'.split(
    ' ',
  );
const months = monthNames.map((name) => name.slice(0, 3));

/** The value as `type` has it. `base`: of relative URLs. */
export function typed(value: Json, type: FieldType | undefined, base: string): Json | Wrong {
  if (type === undefined) return value;
  if (type === 'json') return typeof value === 'string' ? jsonOf(value) : value;
  const text = typeof value === 'object' ? JSON.stringify(value) : trimmed(String(value));
  switch (type) {
    case 'text':
      return typeof value === 'string' ? value : text;
    case 'number':
    case 'integer': {
      const is = typeof value === 'number' ? value : numberOf(text);
      // Beyond 2^53 it would be another number, and more than a column holds.
      if (!Number.isFinite(is) || (type === 'integer' && !Number.isSafeInteger(is))) {
        return wrong(text, type === 'integer' ? 'an integer up to 2^53' : 'a number');
      }
      return is;
    }
    case 'boolean':
      if (yes.has(text.toLowerCase())) return true;
      return no.has(text.toLowerCase()) ? false : wrong(text, 'true or false');
    case 'date':
      return dateOf(text) ?? wrong(text, 'a date');
    case 'url': {
      const url = URL.canParse(text, base) ? parseUrl(text, base) : undefined;
      return url === undefined ? wrong(text, 'a URL') : url.href;
    }
    default:
      return type satisfies never;
  }
}

function wrong(text: string, what: string): Wrong {
  return new Wrong(text, what);
}

function numberOf(text: string): number {
  return number.test(text) ? Number(text.replaceAll(',', '')) : Number.NaN;
}

function jsonOf(text: string): Json | Wrong {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return wrong(text, 'JSON');
  }
}

/** `2026-11-22`, a date with a time as ISO 8601 has it, `22 Nov 2026`, `November 22, 2026`, and the
 *  dates of mails. Days stay days; moments are in UTC. */
function dateOf(text: string): string | undefined {
  const [, day] = /^(\d{4}-\d\d-\d\d)$/.exec(text) ?? [];
  if (day !== undefined) return isDay(day) ? day : undefined;
  const isMoment =
    /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?Z| ?[+-]\d\d(?::?\d\d)?)?$/.test(text) ||
    mailDate.test(text);
  if (isMoment) {
    // Without a zone it is UTC, not the zone of this machine.
    const zone = /(?:Z|GMT|UTC|[+-]\d\d:?\d\d)$/.test(text) ? '' : 'Z';
    // PostgreSQL prints an offset of hours alone, which Date.parse does not know.
    const zoned = /[+-]\d\d$/.test(text) ? `${text}:00` : `${text}${zone}`;
    const ms = Date.parse(zoned);
    return Number.isNaN(ms) || !isMomentOfDay(text) ? undefined : new Date(ms).toISOString();
  }
  const [, d1, m1, y1] = /^(\d{1,2})\.? ([A-Za-z]{3,9})\.?,? (\d{4})$/.exec(text) ?? [];
  const [, m2, d2, y2] =
    /^([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})$/.exec(text) ?? [];
  // Other languages have months that begin alike: November in Finnish is "marraskuu".
  const word = (m1 ?? m2)?.toLowerCase();
  const month = word === undefined ? 0 : monthNames.findIndex((name) => name.startsWith(word)) + 1;
  if (month === 0) return undefined;
  const pad = (part: number | string, width: number) => String(part).padStart(width, '0');
  const iso = `${pad(y1 ?? y2 ?? '', 4)}-${pad(month, 2)}-${pad(d1 ?? d2 ?? '', 2)}`;
  return isDay(iso) ? iso : undefined;
}

/** Date.parse takes 30 Feb for 2 March. */
function isMomentOfDay(text: string): boolean {
  const [, d = '', m = '', y = ''] = /(\d\d?) ([A-Z][a-z]{2}) (\d{4}) /.exec(text) ?? [];
  if (y === '') return isDay(text.slice(0, 10));
  const month = months.indexOf(m.toLowerCase()) + 1;
  return isDay(`${y}-${String(month).padStart(2, '0')}-${d.padStart(2, '0')}`);
}

function isDay(iso: string): boolean {
  const ms = Date.parse(`${iso}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(iso);
}
