/**
 * The master as a manager: its objects by typeid, created by their first use, and the server
 * functions, one request per connection. Source: CPython Lib/multiprocessing/managers.py (Server).
 */
import type { FrontierListener } from '../frontier/frontier-events.ts';
import { bind, type Parameter, type PyRequest } from './arguments.ts';
import {
  addressOf,
  CrawlQueues,
  type CrawlQueuesOptions,
  isCrawlQueue,
  processOf,
} from './crawl-queues.ts';
import { HeavyRequests } from './heavy-requests.ts';
import { OrderlyExits, queueOf } from './orderly-exit.ts';
import { PyToken, PyTuple, type PyValue } from './pickle/values.ts';
import { PlainQueue } from './plain-queue.ts';
import type { ManagedPorts } from './ports.ts';
import type { Caller, Proxied, Use } from './proxied.ts';
import { quoted, TracebackError } from './replies.ts';

/** Queue names, as in the native dialect. */
const typeid = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

type ServerFunction = {
  readonly parameters: readonly Parameter[];
  readonly run: (caller: Caller, args: readonly PyValue[]) => PyValue;
};

type ManagedOptions = CrawlQueuesOptions & {
  /** Names of plain queues, which take precedence over those of the crawls. */
  readonly plain: ReadonlyMap<string, number>;
};

export class Manager implements FrontierListener {
  readonly #options: ManagedOptions;
  readonly #ports: ManagedPorts;
  readonly #crawlQueues: CrawlQueues;
  readonly #objects = new Map<string, Proxied>();
  readonly #callers = new Set<Caller>();
  readonly #settling = new Set<NodeJS.Timeout>();
  readonly #exits = new OrderlyExits(() => performance.now());
  readonly #functions = new Map<string, ServerFunction>([
    ['dummy', { parameters: [], run: (caller) => this.#connected(caller) }],
    ['number_of_objects', { parameters: [], run: () => this.#objects.size }],
    ['debug_info', { parameters: [], run: () => this.#describe() }],
    ['incref', { parameters: [['ident']], run: (caller, [ident]) => this.#incref(caller, ident) }],
    ['decref', { parameters: [['ident']], run: (caller, [ident]) => this.#decref(caller, ident) }],
    ['get_methods', { parameters: [['token']], run: (_, [token]) => this.#methods(token) }],
  ]);

  /** Memory limit of a request or item that has to be built, in bytes. */
  readonly builtBytesMax: number;
  /** Requests that are weighed before they are built. */
  readonly heavy: HeavyRequests;

  constructor(ports: ManagedPorts, options: ManagedOptions) {
    this.builtBytesMax = options.builtBytesMax;
    this.heavy = new HeavyRequests(options.builtBytesMax);
    this.#ports = ports;
    this.#options = options;
    this.#crawlQueues = new CrawlQueues(ports, options, (a, b) => this.areKin(a, b));
  }

  /** Returns the result of a server function. Errors: TracebackError with CPython's text. */
  serve(caller: Caller, request: PyRequest): PyValue {
    const { method } = request;
    if (method === 'create') return this.#create(caller, request);
    const known = this.#functions.get(method);
    if (known === undefined) {
      const names = ['accept_connection', 'create', ...this.#functions.keys()].sort().join(', ');
      const why = method === 'shutdown' ? 'a client cannot stop the master' : 'unrecognized';
      throw new TracebackError('AssertionError', `${quoted(method)}: ${why}; known: ${names}`);
    }
    return known.run(caller, bind(method, known.parameters, request));
  }

  /** Returns the object of a proxy. Errors: TracebackError KeyError. */
  object(ident: PyValue): Proxied {
    const queue = typeof ident === 'string' ? queueOf(ident) : '';
    const object = this.#objects.get(queue);
    if (object !== undefined) return object;
    // A proxy outlives a restart of the master, in a child process or a new thread.
    if (typeid.test(queue)) return this.#open(queue);
    const shown = typeof ident === 'string' ? quoted(ident) : '?';
    throw new TracebackError('KeyError', `${shown}: no object has this ident`);
  }

  joined(caller: Caller): void {
    this.#callers.add(caller);
  }

  /** Called for every request of a connection. */
  heard(caller: Caller): void {
    this.#crawlQueues.heard(caller);
  }

  /** Called when a connection uses a proxy for the first time. */
  named(caller: Caller): void {
    this.#exits.link(addressOf(caller), [...caller.idents]);
  }

  /** Returns the proxies among these that the caller's process has dropped. */
  droppedOf(caller: Caller, idents: Iterable<string>): string[] {
    const address = addressOf(caller);
    return [...idents].filter((ident) => this.#exits.isDropped(address, ident));
  }

  /** The connection is gone. Its items and pages are settled when it is known how it ended. */
  left(caller: Caller, used: ReadonlyMap<Proxied, Use>): void {
    this.#callers.delete(caller);
    const settle = () => {
      const announced = this.#announced(caller, used);
      for (const [object, { isPerCall }] of used) {
        object.gone(caller, isPerCall ? announced.size > 0 : announced.has(object));
      }
    };
    // A process sends its decrefs before it closes anything, but its connections end one by one.
    if (!isThread(caller)) settle();
    else {
      const timer = setTimeout(() => {
        this.#settling.delete(timer);
        settle();
      }, threadGraceMs);
      this.#settling.add(timer);
    }
  }

  /** A crawl has ended: programs that wait for its pages are answered. */
  crawlEnded(): void {
    this.#crawlQueues.tick();
  }

  crawlRemoved(): void {
    this.#crawlQueues.tick();
  }

  /** Lets programs whose crawls are done exit by themselves, for `timeoutMs` at most. */
  async close(timeoutMs: number): Promise<void> {
    this.#crawlQueues.tick();
    const deadline = performance.now() + timeoutMs;
    while (this.#crawlQueues.hasGuests && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, closeTickMs));
    }
    this.#crawlQueues.close();
    for (const timer of this.#settling) clearTimeout(timer);
  }

  /** Returns the objects whose proxies say that the connection ended in order. */
  #announced(caller: Caller, used: ReadonlyMap<Proxied, Use>): Set<Proxied> {
    if (isThread(caller) && [...this.#callers].some((other) => this.#areOne(caller, other))) {
      return new Set(used.keys());
    }
    const [address, process] = [addressOf(caller), processOf(caller)];
    const isAnnounced = (ident: string) =>
      this.#exits.take(address, ident, process, isThread(caller));
    const said = [...used].filter(([, use]) => !use.isPerCall && [...use.idents].some(isAnnounced));
    return new Set(said.map(([object]) => object));
  }

  /** Are these connections of one process? Decided by its name and by its proxies, since two
   *  programs of one machine may have the same name. */
  #areOne(one: Caller, other: Caller): boolean {
    const address = addressOf(one);
    if (addressOf(other) !== address || processOf(other) !== processOf(one)) return false;
    return this.areKin(one, other);
  }

  /** Are these connections of one process or its forks, by their proxies? */
  areKin(one: Caller, other: Caller): boolean {
    const address = addressOf(one);
    const [ours] = one.idents;
    const [theirs] = other.idents;
    if (ours === undefined || theirs === undefined || addressOf(other) !== address) return false;
    return this.#exits.areRelated(address, ours, theirs);
  }

  #create(caller: Caller, { args, kwds }: PyRequest): PyValue {
    const [name, ...more] = args;
    if (typeof name !== 'string' || !typeid.test(name)) {
      const shown = typeof name === 'string' ? quoted(name) : '?';
      throw new TracebackError('KeyError', `${shown}: a queue must have a name like task_queue`);
    }
    // Ignored, m.queue('a') and m.queue('b') would be one queue, and m.Queue(5) without a limit.
    if (more.length + kwds.size > 0) {
      const why =
        `${name}() takes no arguments: a queue is chosen by the registered name alone, ` +
        'and its maximum length by --queues name:length';
      throw new TracebackError('TypeError', why);
    }
    const object = this.#open(name);
    const ident = this.#exits.created(addressOf(caller), name);
    return new PyTuple([ident, exposed(object)]);
  }

  #open(name: string): Proxied {
    let object = this.#objects.get(name);
    if (object === undefined) {
      const { queues, master } = this.#ports;
      const { puts, plain } = this.#options;
      object =
        isCrawlQueue(name) && !plain.has(name)
          ? this.#crawlQueues.open(name)
          : new PlainQueue(queues.queue(name), puts, master);
      this.#objects.set(name, object);
    }
    return object;
  }

  #connected(caller: Caller): null {
    this.#exits.connected(addressOf(caller));
    return null;
  }

  #incref(caller: Caller, ident: PyValue | undefined): null {
    this.object(ident ?? null);
    if (typeof ident === 'string') this.#exits.incref(addressOf(caller), ident);
    return null;
  }

  /** Queues stay, with or without proxies. */
  #decref(caller: Caller, ident: PyValue | undefined): null {
    this.object(ident ?? null);
    if (typeof ident === 'string') this.#exits.decref(addressOf(caller), ident);
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

/** Time in which the connections of a dying process end, in ms. */
const threadGraceMs = 500;
const closeTickMs = 20;

function exposed(object: Proxied): PyTuple {
  return new PyTuple([...object.methods.keys()]);
}

/** Is it the connection of a thread other than the main one? */
function isThread({ name }: Caller): boolean {
  return name.includes('|');
}
