/**
 * Measures the depth of a value, and its weight with every shared part counted once per reference.
 * Each object is visited once: a bomb of 10^30 nodes is measured as fast as it was read. Where an
 * object contains itself, the reference back counts as one scalar. Such a value has no end, so a
 * writer must refuse it (`toPlain`) or keep references (`writePickle`).
 */
import { containerWeight, type PickleLimits, scalarWeight } from './limits.ts';
import {
  PickleError,
  PyByteArray,
  PyDict,
  PyException,
  PySet,
  PyToken,
  PyTuple,
  type PyValue,
  WeightError,
} from './values.ts';

/** Throws PickleError if `value` is nested deeper or weighs more than `limits` allow. */
export function checkWeight(value: PyValue, limits: PickleLimits): void {
  const { weight } = new Scales(limits.depthMax).measure(value, 0);
  if (weight > limits.weightMax) throw new WeightError();
}

/** Throws PickleError if a value without shared containers is nested deeper than `depthMax`. */
export function checkDepth(value: PyValue, depthMax: number): void {
  if (typeof value !== 'object' || value === null) return;
  const parts = partsOf(value);
  if (parts === null) return;
  if (depthMax <= 0) throw tooDeep();
  for (const part of parts) checkDepth(part, depthMax - 1);
}

interface Measure {
  weight: number;
  /** Containers from here to the deepest one inside. */
  height: number;
}

const scalar: Measure = { weight: scalarWeight, height: 0 };

class Scales {
  readonly #depthMax: number;
  /** Containers seen; one that is being measured counts as a scalar. */
  readonly #measures = new Map<object, Measure>();

  constructor(depthMax: number) {
    this.#depthMax = depthMax;
  }

  measure(value: PyValue, depth: number): Measure {
    if (typeof value === 'string') return { weight: scalarWeight + value.length, height: 0 };
    if (typeof value !== 'object' || value === null) return scalar;
    if (value instanceof Uint8Array) return { weight: scalarWeight + value.length, height: 0 };
    if (value instanceof PyByteArray) return this.measure(value.bytes, depth);
    const known = this.#measures.get(value);
    if (known !== undefined) {
      if (depth + known.height > this.#depthMax) throw tooDeep();
      return known;
    }
    const parts = partsOf(value);
    if (parts === null) return scalar;
    if (depth >= this.#depthMax) throw tooDeep();
    this.#measures.set(value, scalar);
    const measure: Measure = { weight: containerWeight, height: 0 };
    for (const part of parts) {
      const { weight, height } = this.measure(part, depth + 1);
      measure.weight += weight;
      if (height > measure.height) measure.height = height;
    }
    measure.height += 1;
    this.#measures.set(value, measure);
    return measure;
  }
}

const tooDeep = (): PickleError => new PickleError('the value is nested too deep');

/** Returns the parts of a container, keys included; null for a value without parts. */
export function partsOf(value: Extract<PyValue, object>): Iterable<PyValue> | null {
  if (Array.isArray(value)) return value;
  if (value instanceof PyTuple) return value.items;
  if (value instanceof PyDict) return value.parts();
  if (value instanceof PySet) return value;
  if (value instanceof PyException) return value.args;
  if (value instanceof PyToken) return [value.typeid, value.address, value.id];
  return null;
}
