/**
 * Mutants of recorded messages: bytes flipped, cut, spliced and doubled; fields of other types,
 * ids of others, fields of other verbs, huge numbers, long texts, deep nesting. The same seed gives
 * the same mutants.
 */
import { decodeMessage, encodeMessage } from '../../shared/frame.ts';
import { requestSchemas } from '../../shared/requests.ts';
import { randomUint32s } from '../support/random.ts';
import { requests } from '../support/requests.ts';
import type { Traffic } from './recording.ts';

type Message = Record<string, unknown>;
/** A task as it was pushed: its ids make mutants that mean something. */
export type LiveTask = { readonly task: Uint8Array; readonly lease: number; readonly url: string };

/** Names that mutants use most of the time, so that they meet each other. */
const names = ['demo', 'jobs', 'fuzz-1', 'fuzz-2', 'fuzz-3', 'fuzz-4'];
const liveMax = 256;
const longest = 5_000;

export class Mutator {
  readonly #next: () => number;
  readonly #traffic: Traffic;
  readonly #messages: Message[];
  readonly #live: LiveTask[] = [];

  constructor(seed: number, traffic: Traffic) {
    this.#next = randomUint32s(seed);
    this.#traffic = traffic;
    this.#messages = traffic.native.map((frame) => decodeMessage(frame) as Message);
    const recorded = new Set(this.#messages.map(({ verb }) => verb));
    // A stock slave says these rarely; their fields are known.
    for (const verb of Object.keys(requestSchemas)) if (!recorded.has(verb)) this.#addOwn(verb);
  }

  /** Verbs that mutants are made of. */
  get verbs(): string[] {
    return [...new Set(this.#messages.map(({ verb }) => String(verb)))].sort();
  }

  below(n: number): number {
    return this.#next() % n;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }

  learn(task: LiveTask): void {
    if (this.#live.length < liveMax) this.#live.push(task);
    else this.#live[this.below(liveMax)] = task;
  }

  /** A native payload; `whole`: it is still msgpack, whatever it says. */
  native(): { payload: Buffer; whole: boolean } {
    if (this.below(500) === 0) {
      return { payload: this.#spoil(this.#nativeMessage(), this.#traffic.native), whole: false };
    }
    return { payload: this.#nativeMessage(), whole: true };
  }

  /** A pickle, mutated where it hurts. */
  python(): Buffer {
    const { python } = this.#traffic;
    const pickle = this.pick(python);
    return this.below(8) === 0 ? pickle : this.#spoil(pickle, python);
  }

  #nativeMessage(): Buffer {
    const message = { ...this.pick(this.#messages) };
    if (message['verb'] === 'bye' && this.below(8) > 0) message['verb'] = 'ping';
    this.#settle(message);
    for (let left = this.below(4); left > 0; left--) this.#change(message);
    // One copy of the master's data is enough.
    if (message['verb'] === 'backup' && typeof message['name'] === 'string') {
      message['name'] = 'demo';
    }
    return encodeMessage(message).subarray(4);
  }

  /** Names and ids that exist. */
  #settle(message: Message): void {
    message['id'] = this.below(1 << 30);
    if ('crawl' in message) message['crawl'] = this.pick(names);
    const live = this.#live.length > 0 ? this.pick(this.#live) : undefined;
    if (live === undefined || this.below(3) === 0) return;
    if ('lease' in message) message['lease'] = live.lease;
    if ('task' in message) message['task'] = live.task;
    if ('leases' in message) message['leases'] = [live.lease, this.below(1000)];
  }

  #change(message: Message): void {
    const target = this.below(2) === 0 ? this.#inner(message) : message;
    const fields = Object.keys(target);
    const field = this.pick(fields) ?? 'x';
    const other = this.pick(this.#messages);
    switch (this.below(8)) {
      case 0:
        // Without a verb it is no message, which ends the session: now and then.
        if (Array.isArray(target)) target.pop();
        else if (field !== 'verb' || this.below(20) === 0) delete target[field];
        break;
      case 1:
        target[this.pick(Object.keys(other))] = this.pick(Object.values(other)) ?? null;
        break;
      case 2:
        message['verb'] = other['verb'];
        break;
      case 3:
        target[`${field}${this.below(9)}`] = target[field] ?? null;
        break;
      case 4:
        target[field] = this.pick(Object.values(other)) ?? null;
        break;
      default:
        target[field] = this.#value();
    }
  }

  /** One of its maps and lists, for this mutant alone; itself if it has none. */
  #inner(message: Message): Message {
    const names = Object.keys(message).filter((name) => isContainer(message[name]));
    const name = this.pick(names);
    if (name === undefined) return message;
    const of = message[name] as Message;
    const copy = (Array.isArray(of) ? [...of] : { ...of }) as Message;
    message[name] = copy;
    return copy;
  }

  #value(): unknown {
    switch (this.below(12)) {
      case 0:
        return this.pick([0, -1, 1.5, 2 ** 31, 2 ** 53 - 1, 2 ** 53, 1e308, -(2 ** 40), 1e9]);
      case 1:
        return this.pick([null, true, false, Number.NaN, Number.POSITIVE_INFINITY]);
      case 2:
        return 'x'.repeat(this.below(longest));
      case 3:
        return Buffer.alloc(this.below(longest), this.below(256));
      case 4:
        return this.#nested(this.below(70));
      case 5:
        return new Array(this.below(2_000)).fill(this.below(3));
      case 6:
        return this.pick(['__proto__', 'constructor', '../../x', '\u0000', '\ud800', '', 'é😀']);
      case 7:
        return `http://h${this.below(20)}.invalid/${this.below(1000)}`;
      case 8:
        return Buffer.from(
          Array.from({ length: this.below(50) }, (_, i) => `http://h${i}.invalid/`).join('\n'),
        );
      case 9:
        return this.below(5_000);
      default:
        return this.pick(Object.values(this.pick(this.#messages))) ?? null;
    }
  }

  #nested(depth: number): unknown {
    let value: unknown = 1;
    for (let i = 0; i < depth; i++) value = this.below(2) === 0 ? [value] : { a: value };
    return value;
  }

  #spoil(of: Buffer, others: readonly Buffer[]): Buffer {
    let bytes: Buffer = Buffer.from(of);
    for (let left = 1 + this.below(3); left > 0; left--) {
      const at = this.below(bytes.length + 1);
      const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
      switch (this.below(7)) {
        case 0:
          bytes = Buffer.from(before);
          break;
        case 1:
          bytes = Buffer.concat([before, after.subarray(1 + this.below(4))]);
          break;
        case 2: {
          const other = this.pick(others);
          const from = this.below(other.length + 1);
          bytes = Buffer.concat([before, other.subarray(from, from + this.below(60)), after]);
          break;
        }
        case 3:
          bytes = Buffer.concat([before, Buffer.alloc(4, this.pick([0, 0x7f, 0xff])), after]);
          break;
        case 4:
          bytes = Buffer.concat([before, bytes.subarray(this.below(at + 1), at), after]);
          break;
        default:
          if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << this.below(8));
      }
    }
    return bytes;
  }

  #addOwn(verb: string): void {
    const task = Buffer.alloc(30, 1);
    const own: Record<string, Message> = {
      bye: {},
      'task.started': { lease: 1 },
      'task.extend': { leases: [1, 2] },
      'task.release': { task, lease: 1, error: { kind: 'timeout', message: 'x' } },
      'task.robots': { task, lease: 1, status: 200, body: Buffer.from('User-agent: *\n') },
    };
    const result = { finalUrl: 'http://a.invalid/', status: 200, bytes: 1, ms: 1 };
    const url = 'http://a.invalid/b';
    own['task.hop'] = { lease: 1, url };
    own['task.sitemap'] = {
      task,
      lease: 1,
      kind: 'urlset',
      urls: Buffer.from(url),
      images: Buffer.from(url),
      end: { result, urls: 1, images: 1 },
    };
    own['crawl.recrawl'] = { crawl: 'demo', like: 'demo', spec: {}, urls: [{ url, depth: 0 }] };
    own['backup'] = { name: 'demo' };
    const proxy = { name: 'http://proxy.invalid:8080', reason: 'no answer', forMs: 5_000 };
    own['proxy.state'] = { proxies: [proxy] };
    own['slave.drain'] = { slave: 'nobody' };
    const fields = own[verb] ?? requests.find((request) => request.verb === verb)?.good;
    if (fields === undefined) throw new Error(`${verb} was not recorded`);
    this.#messages.push({ verb, id: 1, ...fields });
  }
}

function isContainer(value: unknown): value is Message {
  return typeof value === 'object' && value !== null && !(value instanceof Uint8Array);
}
