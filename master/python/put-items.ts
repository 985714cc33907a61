/**
 * The fields of its own that a program puts for a page, under `item`: a dict, or a list of dicts.
 * They become records of kind `item`, so they must be values of JSON. Pure.
 */
import { limits } from '../../shared/protocol.ts';
import type { Json, Values } from '../../shared/rule-results.ts';
import { PyDict, PyFloat, PySet, PyTuple, type PyValue, typeName } from './pickle/values.ts';
import { typeError } from './replies.ts';

const levelsMax = 32;
/** Estimated: what a slave may report takes at most twice as much. */
const bytesMax = limits.itemsBytesMax / 2;
/** Of the path to a value in an error. */
const pathCharsMax = 80;

/** The rows of a page, and about how many bytes they take. */
export type PutItems = { readonly rows: readonly Values[]; readonly bytes: number };
export const noItems: PutItems = { rows: [], bytes: 0 };

/** Errors: RaisedError TypeError. */
export function readItems(value: PyValue): PutItems {
  if (value === null) return noItems;
  const list = value instanceof PyTuple ? value.items : Array.isArray(value) ? value : [value];
  if (list.length > limits.itemRowsMax) {
    throw typeError(`a page has at most ${limits.itemRowsMax} items`);
  }
  const reader = new JsonReader();
  const rows = list.map((one) => {
    if (one instanceof PyDict) return reader.map(one, 'item', levelsMax);
    throw typeError(`item must be a dict, or a list of dicts, not ${typeName(one)}`);
  });
  return { rows, bytes: reader.bytes };
}

/** May a page have so many, of so many bytes? */
export function roomForItems(rows: number, bytes: number): boolean {
  return rows <= limits.itemRowsMax && bytes <= bytesMax;
}

class JsonReader {
  bytes = 0;

  map(dict: PyDict, path: string, levels: number): Values {
    const values: Values = {};
    for (const [key, value] of dict) {
      if (typeof key !== 'string') {
        throw wrong(path, `has a key that is not a str: ${typeName(key)}`);
      }
      if (key === '__proto__') throw wrong(path, 'has the key __proto__, which is no name');
      this.#count(key.length);
      values[key] = this.#value(value, `${path}.${key}`, levels);
    }
    return values;
  }

  #value(value: PyValue, path: string, levels: number): Json {
    this.#count(8);
    if (value === null || typeof value === 'boolean') return value;
    if (typeof value === 'string') {
      this.#count(value.length);
      return value;
    }
    if (typeof value === 'number' || value instanceof PyFloat) {
      const number = typeof value === 'number' ? value : value.value;
      if (Number.isFinite(number)) return number;
      throw wrong(path, `is ${number}, which JSON does not have: put None`);
    }
    if (typeof value === 'bigint') throw wrong(path, 'is an int beyond 2**53: put it as a str');
    if (levels === 0) throw wrong(path, `is nested more than ${levelsMax} levels deep`);
    if (value instanceof PyDict) return this.map(value, path, levels - 1);
    const list =
      value instanceof PyTuple ? value.items : value instanceof PySet ? [...value] : value;
    if (!Array.isArray(list))
      throw wrong(path, `is a ${typeName(value)}, which JSON does not have`);
    return list.map((one: PyValue, i) => this.#value(one, `${path}[${i}]`, levels - 1));
  }

  #count(bytes: number): void {
    this.bytes += bytes;
    if (this.bytes > bytesMax) {
      throw typeError('the items of a page are too large; put fewer, or shorter, fields');
    }
  }
}

function wrong(path: string, why: string): Error {
  return typeError(`${path.slice(0, pathCharsMax)} ${why}`);
}
