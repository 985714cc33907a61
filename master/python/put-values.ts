/**
 * Reads the values that a program puts into the result or filter queue: a string, a dict, or a list
 * of these. A dict may have `url` (the page), `src`, `img`, `image`, `images`, `links`, `status`,
 * `type`, `title`, `finalUrl`, `bytes`, `item` (fields of the program's own); or pages as its keys: `{page: [src, …]}`. Any other key is
 * refused, so that a field with a typing error is not lost in silence. In the filter queue a dict
 * without `links` offers its `url`.
 */
import { limits } from '../../shared/protocol.ts';
import { parseUrl } from '../../shared/url.ts';
import { numberOf } from './arguments.ts';
import type { Told } from './crawl-worker.ts';
import { PyDict, PySet, PyTuple, type PyValue, typeName } from './pickle/values.ts';
import { noItems, type PutItems, readItems } from './put-items.ts';
import { typeError } from './replies.ts';

export type PutValue = {
  /** The page of the value; undefined: the page got last. */
  readonly url: string | undefined;
  readonly links: readonly string[];
  readonly images: readonly string[];
  readonly told: Told;
  readonly items: PutItems;
};

/** The meaning of plain strings in a queue. */
type PutKind = 'links' | 'images';

const imageKeys = ['src', 'img', 'image', 'images'];
const knownKeys = [
  'url',
  'links',
  ...imageKeys,
  'status',
  'type',
  'title',
  'finalUrl',
  'bytes',
  'item',
];
const itemsMax = 50_000;
/** Of a key in an error. */
const keyCharsMax = 64;

/** `kind`: the meaning of plain strings. Errors: RaisedError TypeError. */
export function readPuts(value: PyValue, kind: PutKind): PutValue[] {
  const items = listOf(value);
  const texts = items.filter((item) => typeof item === 'string');
  const dicts = items.filter((item) => item instanceof PyDict);
  if (texts.length + dicts.length !== items.length) {
    const wrong = items.find((item) => typeof item !== 'string' && !(item instanceof PyDict));
    throw typeError(`put takes a str, a dict, or a list of them, not ${typeName(wrong ?? null)}`);
  }
  const plain = { url: undefined, links: [], images: [], told: {}, items: noItems, [kind]: texts };
  return [...(texts.length > 0 ? [plain] : []), ...dicts.flatMap((dict) => ofDict(dict, kind))];
}

function ofDict(dict: PyDict, kind: PutKind): PutValue[] {
  const keys = [...dict].map(([key]) => key);
  const others = keys.filter((key) => !isPage(key));
  if (others.length < keys.length) {
    refuse(others[0], 'a dict of pages has their URLs as its keys, and no other key');
    return [...dict].map(([page, value]) => {
      return {
        url: String(page),
        links: [],
        images: [],
        told: {},
        items: noItems,
        [kind]: textsOf(value),
      };
    });
  }
  const unknown = keys.find((key) => typeof key !== 'string' || !knownKeys.includes(key));
  refuse(unknown, `put fields of your own under 'item'; known keys are ${knownKeys.join(' ')}`);
  const url = dict.get('url');
  const images = imageKeys.flatMap((key) => textsOf(dict.get(key) ?? null));
  const links = textsOf(dict.get('links') ?? null);
  const items = readItems(dict.get('item') ?? null);
  if (kind === 'links' && typeof url === 'string' && !dict.has('links')) {
    return [{ url: undefined, links: [url], images, told: {}, items }];
  }
  const told = toldOf(dict);
  return [{ url: typeof url === 'string' ? url : undefined, links, images, told, items }];
}

function isPage(key: PyValue): boolean {
  return typeof key === 'string' && /^https?:\/\//i.test(key);
}

/** @throws RaisedError TypeError there is such a key */
function refuse(key: PyValue | undefined, why: string): void {
  if (key === undefined) return;
  const name =
    typeof key === 'string'
      ? `the key '${key.slice(0, keyCharsMax)}'`
      : `a key of type ${typeName(key)}`;
  throw typeError(`put does not know ${name}; ${why}`);
}

function toldOf(dict: PyDict): Told {
  const told: { -readonly [K in keyof Told]: Told[K] } = {};
  const finalUrl = dict.get('finalUrl');
  const type = dict.get('type');
  const title = dict.get('title');
  if (typeof finalUrl === 'string' && URL.canParse(finalUrl)) {
    const { href } = parseUrl(finalUrl);
    if (href.length <= limits.urlChars) told.finalUrl = href.replace(/#.*$/, '');
  }
  if (typeof type === 'string') told.type = type.slice(0, 256);
  if (typeof title === 'string') told.title = title.slice(0, limits.titleChars);
  const status = numberOf(dict.get('status') ?? null);
  if (status !== undefined && status >= 0 && status <= 999) told.status = Math.trunc(status);
  const bytes = numberOf(dict.get('bytes') ?? null);
  if (bytes !== undefined && Number.isSafeInteger(bytes) && bytes >= 0) told.bytes = bytes;
  return told;
}

function textsOf(value: PyValue): string[] {
  return listOf(value).filter((item) => typeof item === 'string');
}

function listOf(value: PyValue): readonly PyValue[] {
  if (value === null) return [];
  const items =
    value instanceof PyTuple ? value.items : value instanceof PySet ? [...value] : value;
  const list = Array.isArray(items) ? items : [items as PyValue];
  if (list.length > itemsMax) throw typeError(`put takes at most ${itemsMax} at once`);
  return list;
}
