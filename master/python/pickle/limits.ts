/** Limits on the cost of a pickle, and the estimate of its value's weight. */

export interface PickleLimits {
  /** Bytes of the pickle, read or written. */
  readonly bytesMax: number;
  /** Levels of nested containers. CPython's own pickler stops at 499 (3.6 to 3.12). */
  readonly depthMax: number;
  /**
   * Weight of the value with every reference to a shared part written out, in bytes
   * (`scalarWeight`, `containerWeight`, and the length of each str and bytes). A pickle of 709
   * bytes can hold lists of 10^30 nodes: harmless to read, fatal to walk.
   */
  readonly weightMax: number;
  /** Instructions of one pickle: bounds its stack and its time. */
  readonly opcodesMax: number;
  /** Bytes of one int. */
  readonly intBytesMax: number;
}

export const pickleLimits: PickleLimits = {
  bytesMax: 32 << 20,
  depthMax: 1000,
  weightMax: 128 << 20,
  opcodesMax: 8 << 20,
  intBytesMax: 64 << 10,
};

export const scalarWeight = 8;
export const containerWeight = 32;
/** More for a dict or set, since even a small one has a hash table. */
export const hashedWeight = 128;

/** Digits of an int in text (protocol 0, JSON): the bound of CPython's own int(), since 3.11. */
export const intDigitsMax = 4300;
