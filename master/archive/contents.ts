/**
 * Images that one session has sent and not yet reported. The next report of its task takes an image
 * out; a session that ends takes its own with it. Source: PROTOCOL.md [T-112].
 */
import { createHash } from 'node:crypto';
import { CommandError } from '../../shared/errors.ts';
import { imageBytesMax } from '../../shared/images.ts';
import type { Requests } from '../../shared/requests.ts';
import { Body, type BodyRoom } from './body.ts';

/** Tasks of one session whose images wait for a report. */
const tasksMax = 256;

/** An image that came whole. */
export type Content = { readonly bytes: number; readonly pieces: readonly Uint8Array[] };

type Draft = { readonly body: Body; nextPart: number };

export class SessionContents {
  readonly #room: BodyRoom;
  readonly #drafts = new Map<string, Draft>();

  constructor(room: BodyRoom) {
    this.#room = room;
  }

  /** Takes a part. Resolves when there is room for more; undefined: there is.
   *  @throws CommandError E_BAD_REQUEST it does not follow the one before, or is too long */
  add({ task, lease, part, body }: Requests['task.content']): Promise<void> | undefined {
    const key = keyOf(task, lease);
    const draft = part === 0 ? this.#begin(key) : this.#drafts.get(key);
    if (draft === undefined || draft.nextPart !== part) {
      this.#drop(key);
      throw refusal('a part is missing before this one');
    }
    if (draft.body.bytes + body.length > imageBytesMax) {
      this.#drop(key);
      throw refusal(`the image is longer than ${imageBytesMax} bytes`);
    }
    draft.nextPart++;
    return draft.body.add(body);
  }

  /** Takes out the image of a task. @throws CommandError E_BAD_REQUEST it is another one */
  async take(task: Uint8Array, lease: number, sha256: Uint8Array): Promise<Content> {
    const key = keyOf(task, lease);
    const draft = this.#drafts.get(key);
    if (draft === undefined) throw refusal('the image was not sent');
    this.#drafts.delete(key);
    const { body } = draft;
    const pieces = await body.read();
    // They are in memory now, until they are written.
    body.drop();
    const hash = createHash('sha256');
    for (const piece of pieces) hash.update(piece);
    if (!hash.digest().equals(sha256)) throw refusal('the bytes are not those of its SHA-256');
    return { bytes: body.bytes, pieces };
  }

  /** The session has ended. */
  close(): void {
    for (const key of [...this.#drafts.keys()]) this.#drop(key);
  }

  #begin(key: string): Draft {
    this.#drop(key);
    if (this.#drafts.size >= tasksMax) throw refusal('too many images wait for their reports');
    const draft = { body: new Body(this.#room), nextPart: 0 };
    this.#drafts.set(key, draft);
    return draft;
  }

  #drop(key: string): void {
    this.#drafts.get(key)?.body.drop();
    this.#drafts.delete(key);
  }
}

function keyOf(task: Uint8Array, lease: number): string {
  return `${lease} ${Buffer.from(task).toString('hex')}`;
}

function refusal(message: string): CommandError {
  return new CommandError('E_BAD_REQUEST', `task.content: ${message}`);
}
