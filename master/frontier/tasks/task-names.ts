/**
 * Names of tasks on the wire: the key in the store and a seal. A slave that was never given a task
 * cannot name it, though keys can be guessed. This matters because a report counts without a lease.
 * Source: PROTOCOL.md [T-2], [T-10].
 */

import { taskKeyBytes } from '../../store/task-keys.ts';
import type { Fingerprinter } from '../filter/fingerprint.ts';
import { keyOf, type Task } from './tasks.ts';

const sealBytes = 8;

export class TaskNames {
  readonly #secret: Uint8Array;
  readonly #fingerprinter: Fingerprinter;

  /** `secret`: 16 bytes, the same at every start, so that names outlive a master. */
  constructor(secret: Uint8Array, fingerprinter: Fingerprinter) {
    this.#secret = secret;
    this.#fingerprinter = fingerprinter;
  }

  of(task: Task): Buffer {
    const key = keyOf(task);
    const name = Buffer.allocUnsafe(taskKeyBytes + sealBytes);
    name.set(key);
    name.set(this.#seal(key), taskKeyBytes);
    return name;
  }

  /** Returns the key in a name; undefined if the name was never given out. */
  keyIn(name: Uint8Array): Buffer | undefined {
    if (name.length !== taskKeyBytes + sealBytes) return undefined;
    const key = Buffer.from(name.subarray(0, taskKeyBytes));
    return this.#seal(key).equals(name.subarray(taskKeyBytes)) ? key : undefined;
  }

  #seal(key: Buffer): Buffer {
    const { buffer } = this.#fingerprinter.one(this.#secret, `task ${key.toString('hex')}`);
    return Buffer.from(buffer, 0, sealBytes);
  }
}
