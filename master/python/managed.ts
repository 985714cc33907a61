/**
 * What the master shows to managers' clients: its objects by typeid, made by their first use, and
 * the server functions, one request a connection. Source: BASEMANAGER, chapter 3a.
 */
import type { Services } from '../services.ts';
import { bind, type Parameter, type PyRequest } from './arguments.ts';
import {
  addressOf,
  CrawlQueues,
  type CrawlQueuesOptions,
  isCrawlQueue,
  processOf,
} from './crawl-queues.ts';
import { Farewells } from './farewells.ts';
import { PlainQueue } from './plain-queue.ts';
import type { Caller, Proxied } from './proxied.ts';
import { quoted, TracebackError } from './replies.ts';
import { PyToken, PyTuple, type PyValue } from './values.ts';

/** As in the native dialect. */
const typeid = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

type ServerFunction = {
  readonly parameters: readonly Parameter[];
  readonly run: (caller: Caller, args: readonly PyValue[]) => PyValue;
};

export type ManagedOptions = CrawlQueuesOptions & {
  /** Names of plain queues: they win over those of the crawls. */
  readonly plain: ReadonlyMap<string, number>;
};

export class Managed {
  readonly #options: ManagedOptions;
  readonly #services: () => Services;
  readonly #crawlQueues: CrawlQueues;
  readonly #objects = new Map<string, Proxied>();
  readonly #callers = new Set<Caller>();
  readonly #settling = new Set<NodeJS.Timeout>();
  readonly #farewells = new Farewells(() => performance.now());
  readonly #functions = new Map<string, ServerFunction>([
    ['dummy', { parameters: [], run: () => null }],
    ['number_of_objects', { parameters: [], run: () => this.#objects.size }],
    ['debug_info', { parameters: [], run: () => this.#describe() }],
    ['incref', { parameters: [['ident']], run: (_, [ident]) => this.#incref(ident) }],
    ['decref', { parameters: [['ident']], run: (caller, [ident]) => this.#decref(caller, ident) }],
    ['get_methods', { parameters: [['token']], run: (_, [token]) => this.#methods(token) }],
  ]);

  constructor(services: () => Services, options: ManagedOptions) {
    this.#services = services;
    this.#options = options;
    this.#crawlQueues = new CrawlQueues(services, options);
  }

  /** What a server function gives. Errors: TracebackError as CPython tells it. */
  serve(caller: Caller, request: PyRequest): PyValue {
    const { method } = request;
    if (method === 'create') return this.#create(caller, request);
    const known = this.#functions.get(method);
    if (known === undefined) {
      const names = ['accept_connection', 'create', ...this.#functions.keys()].sort().join(', ');
      const why = method === 'shutdown' ? 'the master is not stopped by a client' : 'unrecognized';
      throw new TracebackError('AssertionError', `${quoted(method)}: ${why}; there are ${names}`);
    }
    return known.run(caller, bind(method, known.parameters, request));
  }

  /** The object that a proxy names. Errors: TracebackError KeyError. */
  object(ident: PyValue): Proxied {
    const object = typeof ident === 'string' ? this.#objects.get(ident) : undefined;
    if (object !== undefined) return object;
    // A proxy outlives a restart of the master, in a child process or a new thread.
    if (typeof ident === 'string' && typeid.test(ident)) return this.#open(ident);
    const shown = typeof ident === 'string' ? quoted(ident) : '?';
    throw new TracebackError('KeyError', `${shown}: no object has this ident`);
  }

  joined(caller: Caller): void {
    this.#callers.add(caller);
  }

  /** It makes a request, to whichever object. */
  heard(caller: Caller): void {
    this.#crawlQueues.heard(caller);
  }

  /** It is gone; what it had of these is settled when it is known how it ended. */
  left(caller: Caller, used: Iterable<Proxied>): void {
    this.#callers.delete(caller);
    const objects = [...used];
    const settle = () => {
      for (const object of objects) object.gone(caller, this.#isOrderly(caller, object.ident));
    };
    // A process says farewell before it closes anything; but its connections end one by one.
    if (!isThread(caller)) settle();
    else {
      const timer = setTimeout(() => {
        this.#settling.delete(timer);
        settle();
      }, threadGraceMs);
      this.#settling.add(timer);
    }
  }

  /** A crawl has ended: those who wait for its pages are told. */
  crawlEnded(): void {
    this.#crawlQueues.tick();
  }

  /** Lets programs whose crawls are over end by themselves, for `timeoutMs` at most. */
  async close(timeoutMs: number): Promise<void> {
    this.#crawlQueues.tick();
    const deadline = performance.now() + timeoutMs;
    while (this.#crawlQueues.hasGuests && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, closeTickMs));
    }
    this.#crawlQueues.close();
    for (const timer of this.#settling) clearTimeout(timer);
  }

  #isOrderly(caller: Caller, ident: string): boolean {
    const address = addressOf(caller);
    const isSibling = (other: Caller) =>
      addressOf(other) === address && processOf(other) === processOf(caller);
    if (isThread(caller) && [...this.#callers].some(isSibling)) return true;
    return this.#farewells.take(address, ident, processOf(caller), isThread(caller));
  }

  #create(caller: Caller, { args }: PyRequest): PyValue {
    const [name] = args;
    if (typeof name !== 'string' || !typeid.test(name)) {
      const shown = typeof name === 'string' ? quoted(name) : '?';
      throw new TracebackError('KeyError', `${shown}: a queue has a name like task_queue`);
    }
    const object = this.#open(name);
    this.#farewells.created(addressOf(caller), name);
    return new PyTuple([object.ident, exposed(object)]);
  }

  #open(name: string): Proxied {
    let object = this.#objects.get(name);
    if (object === undefined) {
      const { queues, isDraining } = this.#services();
      const { isDurable, plain } = this.#options;
      object =
        isCrawlQueue(name) && !plain.has(name)
          ? this.#crawlQueues.open(name)
          : new PlainQueue(queues.queue(name), { isDurable, isDraining });
      this.#objects.set(name, object);
    }
    return object;
  }

  #incref(ident: PyValue | undefined): null {
    this.object(ident ?? null);
    return null;
  }

  /** Queues stay, whoever has proxies of them. */
  #decref(caller: Caller, ident: PyValue | undefined): null {
    const object = this.object(ident ?? null);
    this.#farewells.decref(addressOf(caller), object.ident);
    return null;
  }

  #methods(token: PyValue | undefined): PyValue {
    if (!(token instanceof PyToken)) {
      throw new TracebackError('AttributeError', 'get_methods takes a Token');
    }
    return exposed(this.object(token.id));
  }

  #describe(): string {
    return [...this.#objects.values()].map((object) => object.describe()).join('\n');
  }
}

/** How long the connections of one process that dies may take to end, in ms. */
const threadGraceMs = 500;
const closeTickMs = 20;

function exposed(object: Proxied): PyTuple {
  return new PyTuple([...object.methods.keys()]);
}

/** The connection of a thread that is not its process's main one. */
function isThread({ name }: Caller): boolean {
  return name.includes('|');
}
