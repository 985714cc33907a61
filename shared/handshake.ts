/**
 * The mutual challenge of `multiprocessing.connection`: both sides prove that they hold the authkey
 * before a single message is read. Pure: bytes in, bytes out.
 *
 *     server                                client
 *     #CHALLENGE#{sha256}<40 random>   ->
 *                                      <-   {sha256}<mac>  (Python <= 3.11: 16 bytes HMAC-MD5)
 *     #WELCOME# | #FAILURE#, close     ->
 *                                      <-   #CHALLENGE#<its own>
 *     <digest>                         ->
 *                                      <-   #WELCOME# | #FAILURE#, close
 *
 * The MAC covers everything after `#CHALLENGE#`, including `{sha256}`. The server checks the
 * client's answer before it answers a challenge; otherwise it would be an oracle for reflection.
 * Source: PROTOCOL.md [H-1]..[H-7]; CPython Lib/multiprocessing/connection.py (3.12).
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { AuthError, ConfigError, ProtocolError } from './errors.ts';

const challengePrefix = Buffer.from('#CHALLENGE#');
const welcome = Buffer.from('#WELCOME#');
const failure = Buffer.from('#FAILURE#');
/** Sent instead of a verdict by a master that requires encryption. [K-5] */
export const encryptedOnly = Buffer.from('#TLS#');
const oldChallengeBytes = 20;
const randomPart = 40;

/** Digests that CPython >= 3.12 knows, by their wire name. */
const digests = new Map([
  ['md5', 'md5'],
  ['sha256', 'sha256'],
  ['sha384', 'sha384'],
  ['sha3_256', 'sha3-256'],
  ['sha3_384', 'sha3-384'],
]);

/** `any`: all digests of Python, including the MD5 of versions up to 3.11; `sha256`: only that. */
export type AuthDigest = 'any' | 'sha256';

/** The common key and both challenges; binds the messages that follow. [H-6] */
export type Agreement = {
  readonly authkey: Buffer;
  readonly server: Buffer;
  readonly client: Buffer;
};

/** The step after a frame: send these, then continue, finish, or close with the error. */
export type HandshakeStep = {
  readonly send: readonly Buffer[];
  readonly agreement?: Agreement;
  readonly error?: AuthError | ConfigError | ProtocolError;
};

/** The server's half. `start` returns the first frame; pass every later frame to `receive`. */
export class ServerHandshake {
  readonly #authkeys: readonly Buffer[];
  readonly #digest: AuthDigest;
  readonly #challenge = makeChallenge();
  /** The key that the client has. */
  #authkey: Buffer | undefined;
  #clientChallenge: Buffer | undefined;
  #state: 'answer' | 'challenge' | 'welcome' | 'done' = 'answer';

  /** `authkeys`: the client may have any of them. */
  constructor(authkeys: readonly Buffer[], digest: AuthDigest = 'any') {
    this.#authkeys = authkeys;
    this.#digest = digest;
  }

  start(): Buffer {
    return Buffer.concat([challengePrefix, this.#challenge]);
  }

  /** The client gave the right answer. */
  get isProved(): boolean {
    return this.#authkey !== undefined;
  }

  receive(payload: Buffer): HandshakeStep {
    switch (this.#state) {
      case 'answer':
        this.#authkey = this.#authkeys.find((authkey) =>
          verify(authkey, this.#challenge, payload, this.#digest),
        );
        if (this.#authkey === undefined) {
          this.#state = 'done';
          return { send: [failure], error: new AuthError('the authkey was refused') };
        }
        this.#state = 'challenge';
        return { send: [welcome] };
      case 'challenge': {
        this.#clientChallenge = challengeOf(payload);
        const answer =
          this.#authkey && this.#clientChallenge && answerTo(this.#authkey, this.#clientChallenge);
        this.#state = answer === undefined ? 'done' : 'welcome';
        if (answer === undefined) return broken('the client sent no challenge');
        return { send: [answer] };
      }
      case 'welcome': {
        this.#state = 'done';
        const client = this.#clientChallenge;
        const authkey = this.#authkey;
        if (authkey === undefined || client === undefined || !payload.equals(welcome)) {
          return { send: [], error: new AuthError('the client rejected the digest') };
        }
        return { send: [], agreement: { authkey, server: this.#challenge, client } };
      }
      case 'done':
        return broken('the handshake is over');
      default:
        return this.#state satisfies never;
    }
  }
}

/** The client's half: pass every frame to `receive`. */
export class ClientHandshake {
  readonly #authkey: Buffer;
  readonly #challenge = makeChallenge();
  #serverChallenge: Buffer | undefined;
  #state: 'challenge' | 'verdict' | 'answer' | 'done' = 'challenge';

  constructor(authkey: Buffer) {
    this.#authkey = authkey;
  }

  receive(payload: Buffer): HandshakeStep {
    switch (this.#state) {
      case 'challenge': {
        const challenge = challengeOf(payload);
        // An impostor of the master must not choose a digest that makes the key easier to guess.
        const isOurs = challenge !== undefined && digestName(challenge) === 'sha256';
        this.#serverChallenge = isOurs ? challenge : undefined;
        const answer = this.#serverChallenge && answerTo(this.#authkey, this.#serverChallenge);
        this.#state = answer === undefined ? 'done' : 'verdict';
        if (answer === undefined) return broken('this is not an Orbweaver master');
        return { send: [answer] };
      }
      case 'verdict':
        this.#state = payload.equals(welcome) ? 'answer' : 'done';
        if (payload.equals(failure)) return refused('the master refused the authkey');
        if (payload.equals(encryptedOnly)) {
          const text = 'the master accepts only encrypted connections; give --tls';
          return { send: [], error: new ConfigError(text) };
        }
        if (this.#state === 'done') return broken('this is not an Orbweaver master');
        return { send: [Buffer.concat([challengePrefix, this.#challenge])] };
      case 'answer': {
        this.#state = 'done';
        const server = this.#serverChallenge;
        if (!server || !verify(this.#authkey, this.#challenge, payload, 'sha256')) {
          return {
            send: [failure],
            error: new AuthError('the master could not prove that it has the authkey'),
          };
        }
        const agreement = { authkey: this.#authkey, server, client: this.#challenge };
        return { send: [welcome], agreement };
      }
      case 'done':
        return broken('the handshake is over');
      default:
        return this.#state satisfies never;
    }
  }
}

/** Returns the proof in `hello` and its reply. It binds the key to role, version and both
 *  challenges, which the stock handshake does not, and to the channel of an encrypted connection.
 *  [H-6] [K-6] */
export function roleProof(
  { authkey, server, client }: Agreement,
  role: string,
  version: number,
  channel: Uint8Array,
): Buffer {
  return createHmac('sha256', authkey)
    .update(`orbweaver ${version} ${role}\0`)
    .update(server)
    .update(client)
    .update(channel)
    .digest();
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

function makeChallenge(): Buffer {
  return Buffer.concat([Buffer.from('{sha256}'), randomBytes(randomPart)]);
}

function challengeOf(payload: Buffer): Buffer | undefined {
  if (!payload.subarray(0, challengePrefix.length).equals(challengePrefix)) return undefined;
  return Buffer.from(payload.subarray(challengePrefix.length));
}

/** Returns the answer to a challenge, in the form that its sender understands. */
function answerTo(authkey: Buffer, challenge: Buffer): Buffer | undefined {
  if (challenge.length === oldChallengeBytes) return mac(authkey, 'md5', challenge);
  const name = digestName(challenge);
  const digest = name && digests.get(name);
  if (!digest || challenge.length < oldChallengeBytes) return undefined;
  return Buffer.concat([Buffer.from(`{${name}}`), mac(authkey, digest, challenge)]);
}

function verify(authkey: Buffer, challenge: Buffer, answer: Buffer, allowed: AuthDigest): boolean {
  if (answer.length === 16) {
    return allowed === 'any' && timingSafeEqual(answer, mac(authkey, 'md5', challenge));
  }
  const name = digestName(answer);
  const digest = name && digests.get(name);
  if (!digest || (allowed === 'sha256' && name !== 'sha256')) return false;
  return sameBytes(answer.subarray(name.length + 2), mac(authkey, digest, challenge));
}

function mac(authkey: Buffer, digest: string, challenge: Buffer): Buffer {
  return createHmac(digest, authkey).update(challenge).digest();
}

function digestName(bytes: Buffer): string | undefined {
  return /^\{([a-z0-9_]{1,10})\}/.exec(bytes.toString('latin1', 0, 12))?.[1];
}

function broken(message: string): HandshakeStep {
  return { send: [], error: new ProtocolError(message) };
}

function refused(message: string): HandshakeStep {
  return { send: [], error: new AuthError(message) };
}
