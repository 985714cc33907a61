/**
 * Names of tasks on the wire: the key in the store and two seals. A slave that was never given a
 * task cannot name it, though keys can be guessed. This matters because a report counts without a
 * lease. The second seal is of what is fetched: a master that begins with a backup, or with what a
 * repair has saved, gives keys again that slaves know as those of other URLs.
 * Source: PROTOCOL.md [T-2], [T-10].
 */

import { taskKeyBytes } from '../../store/task-keys.ts';
import type { Fingerprinter } from '../filter/fingerprint.ts';
import { keyOf, type Task } from './tasks.ts';

const sealBytes = 8;
const nameBytes = taskKeyBytes + 2 * sealBytes;

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
    const name = Buffer.allocUnsafe(nameBytes);
    name.set(key);
    name.set(this.#seal(key.toString('hex')), taskKeyBytes);
    name.set(this.#seal(`${task.kind} ${task.url}`), taskKeyBytes + sealBytes);
    return name;
  }

  /** Returns the task of that name, which `find` looks up by its key; undefined if there is none. */
  taskOf(name: Uint8Array, find: (key: Buffer) => Task | undefined): Task | undefined {
    const key = this.#keyIn(name);
    const task = key && find(key);
    return task && this.of(task).equals(name) ? task : undefined;
  }

  /** Undefined: the name was never given out. */
  #keyIn(name: Uint8Array): Buffer | undefined {
    if (name.length !== nameBytes) return undefined;
    const key = Buffer.from(name.subarray(0, taskKeyBytes));
    const seal = name.subarray(taskKeyBytes, taskKeyBytes + sealBytes);
    return this.#seal(key.toString('hex')).equals(seal) ? key : undefined;
  }

  #seal(what: string): Buffer {
    const { buffer } = this.#fingerprinter.one(this.#secret, `task ${what}`);
    return Buffer.from(buffer, 0, sealBytes);
  }
}
