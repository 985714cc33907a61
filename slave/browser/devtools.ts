/**
 * Calls of a browser by its DevTools protocol, and its events. One pipe carries all sessions: that
 * of the browser itself, and one for each page, frame and worker.
 */
import type { Readable, Writable } from 'node:stream';
import { MessagePipe } from './message-pipe.ts';
import {
  type Command,
  type Commands,
  type EventName,
  type Events,
  eventsHeard,
} from './protocol.ts';

/** An event and its parameters. */
export type Heard = {
  [E in EventName]: { readonly name: E; readonly params: Events[E] };
}[EventName];
type Listener = (heard: Heard) => void;

type Waiting = {
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
  readonly session: string;
};

/** More than a picture of the largest page has. */
const textBytesMax = 160 << 20;

/** The session of the browser itself. */
const browserSession = '';

export class DevTools {
  readonly #pipe: MessagePipe;
  readonly #waiting = new Map<number, Waiting>();
  readonly #listeners = new Map<string, Listener>();
  readonly #onEnd: () => void;
  #lastId = 0;
  #isEnded = false;

  /** `onEnd`: the pipe has ended; it is called before the calls under way are rejected. */
  constructor(input: Readable, output: Writable, onEnd: () => void) {
    this.#onEnd = onEnd;
    this.#pipe = new MessagePipe({
      input,
      output,
      bytesMax: textBytesMax,
      isWanted: (head) => {
        const [, name] = /^\{"method":"([\w.]+)"/.exec(head) ?? [];
        return name === undefined || eventsHeard.has(name);
      },
      onText: (text) => this.#take(text),
      onTooLong: (head) => {
        const [, id] = /^\{"id":(\d+),/.exec(head) ?? [];
        this.#answer(Number(id))?.reject(new Error('the answer of the browser is too long'));
      },
      onEnd: () => this.#ended(),
    });
  }

  /** Resolves with the result. @throws Error it was refused, or the session has ended */
  call<C extends Command>(
    name: C,
    params: Commands[C][0],
    session = browserSession,
  ): Promise<Commands[C][1]> {
    return new Promise((resolve, reject) => {
      if (this.#isEnded) {
        reject(new Error('the browser ended'));
        return;
      }
      this.#waiting.set(this.tell(name, params, session), { resolve, reject, session });
    });
  }

  /** Says something whose result nobody needs. Returns its id. */
  tell<C extends Command>(name: C, params: Commands[C][0], session = browserSession): number {
    const id = ++this.#lastId;
    const to = session === browserSession ? {} : { sessionId: session };
    this.#pipe.send(JSON.stringify({ id, method: name, params, ...to }));
    return id;
  }

  /** The events of a session; there is one listener for each. */
  listen(session: string, listener: Listener): void {
    this.#listeners.set(session, listener);
  }

  /** The events of the browser itself. */
  listenToBrowser(listener: Listener): void {
    this.listen(browserSession, listener);
  }

  /** Forgets a session: what it was asked for fails. */
  drop(session: string): void {
    this.#listeners.delete(session);
    for (const [id, one] of this.#waiting) {
      if (one.session !== session) continue;
      this.#waiting.delete(id);
      one.reject(new Error('the page is gone'));
    }
  }

  /** Ends the connection. Idempotent. */
  close(): void {
    this.#pipe.close();
  }

  #take(text: string): void {
    try {
      this.#read(JSON.parse(text) as Message);
    } catch {
      // It is not the browser that speaks here.
      this.close();
    }
  }

  #read({ id, method, params, result, error, sessionId }: Message): void {
    if (id !== undefined) {
      const asked = this.#answer(id);
      if (error === undefined) asked?.resolve(result as never);
      else asked?.reject(new Error(String(error.message)));
    } else if (method !== undefined) {
      const heard = { name: method, params: params ?? {} } as Heard;
      this.#listeners.get(sessionId ?? browserSession)?.(heard);
    }
  }

  #answer(id: number): Waiting | undefined {
    const asked = this.#waiting.get(id);
    this.#waiting.delete(id);
    return asked;
  }

  #ended(): void {
    this.#isEnded = true;
    this.#onEnd();
    const left = [...this.#waiting.values()];
    this.#waiting.clear();
    this.#listeners.clear();
    for (const { reject } of left) reject(new Error('the browser ended'));
  }
}

type Message = {
  readonly id?: number;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly message?: unknown };
  readonly sessionId?: string;
};
