/**
 * Finds the parts of a value that occur more than once, before it is written: containers and bytes
 * by identity, long strings by their text (repeating a short one costs less than a memo entry).
 */

import { PickleError, PyFloat, type PyValue } from './values.ts';
import { partsOf } from './weight.ts';

const textCharsMin = 256;

export class Survey {
  readonly #depthMax: number;
  /** The usual value has one container: it needs no Set to be compared with. */
  #first: unknown = null;
  #seen: Set<unknown> | null = null;
  #shared: Set<unknown> | null = null;

  constructor(depthMax: number) {
    this.#depthMax = depthMax;
  }

  /** The parts that occur twice; null if there are none. */
  get shared(): ReadonlySet<unknown> | null {
    return this.#shared;
  }

  visit(value: PyValue, depth: number): void {
    if (typeof value === 'string') {
      if (value.length >= textCharsMin) this.#isNew(value);
      return;
    }
    if (typeof value !== 'object' || value === null || value instanceof PyFloat) return;
    if (!this.#isNew(value)) return;
    const parts = partsOf(value);
    if (parts === null) return;
    if (depth >= this.#depthMax) throw new PickleError('the value is nested too deep');
    for (const part of parts) this.visit(part, depth + 1);
  }

  #isNew(value: unknown): boolean {
    if (this.#first === null) {
      this.#first = value;
      return true;
    }
    this.#seen ??= new Set([this.#first]);
    if (!this.#seen.has(value)) {
      this.#seen.add(value);
      return true;
    }
    this.#shared ??= new Set();
    this.#shared.add(value);
    return false;
  }
}
