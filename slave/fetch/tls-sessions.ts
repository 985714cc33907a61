/**
 * TLS sessions that hosts gave, to be resumed: a resumed handshake needs no certificate, and no
 * signature to be checked. All clients of a slave share the room, but nobody resumes another's
 * session: a host would learn by it that two visitors are one. Bounded by bytes; the one unused for
 * longest goes first. The clients make a part of it for each connector.
 */
const bytesMaxDefault = 16 << 20;
/** What an entry costs beside the session. */
const entryBytes = 256;

/** The sessions of one connector. */
export type TlsSessions = {
  of(key: string): Buffer | undefined;
  keep(key: string, session: Buffer): void;
  forget(key: string): void;
};

export class SessionRoom {
  readonly #bytesMax: number;
  /** In order of use. */
  readonly #sessions = new Map<string, Buffer>();
  #bytes = 0;
  #parts = 0;

  constructor(bytesMax = bytesMaxDefault) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** A part for a connector of its own. */
  part(): TlsSessions {
    const prefix = `${this.#parts++} `;
    return {
      of: (key) => this.#of(prefix + key),
      keep: (key, session) => this.#keep(prefix + key, session),
      forget: (key) => this.#forget(prefix + key),
    };
  }

  #of(key: string): Buffer | undefined {
    const session = this.#sessions.get(key);
    if (session === undefined) return undefined;
    this.#sessions.delete(key);
    this.#sessions.set(key, session);
    return session;
  }

  #keep(key: string, session: Buffer): void {
    this.#forget(key);
    this.#sessions.set(key, session);
    this.#bytes += session.length + entryBytes;
    for (const oldest of this.#sessions.keys()) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#forget(oldest);
    }
  }

  #forget(key: string): void {
    const session = this.#sessions.get(key);
    if (session === undefined) return;
    this.#sessions.delete(key);
    this.#bytes -= session.length + entryBytes;
  }
}
