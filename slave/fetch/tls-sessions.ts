/**
 * TLS sessions of hosts, to be resumed: a resumed handshake needs no certificate and no signature
 * check. All clients of a slave share the space, but none resumes another's session: a host could
 * recognise two identities as one. Bounded by bytes; the session unused for longest is dropped
 * first. The clients make a part of it for each connector.
 */
const bytesMaxDefault = 16 << 20;
/** Cost of an entry besides the session. */
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

  /** Returns a part for one connector. */
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
