/**
 * What the master shows to managers' clients: its objects by typeid, made by their first use, and
 * the server functions, one request a connection. Source: BASEMANAGER, chapter 3a.
 */
import { bind, type Parameter, type PyRequest } from './arguments.ts';
import {
  addressOf,
  CrawlQueues,
  type CrawlQueuesOptions,
  isCrawlQueue,
  processOf,
} from './crawl-queues.ts';
import { Farewells, queueOf } from './farewells.ts';
import { HeavyRequests } from './heavy-requests.ts';
import { PyToken, PyTuple, type PyValue } from './pickle/values.ts';
import { PlainQueue } from './plain-queue.ts';
import type { ManagedPorts } from './ports.ts';
import type { Caller, Proxied } from './proxied.ts';
import { quoted, TracebackError } from './replies.ts';

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
  readonly #ports: ManagedPorts;
  readonly #crawlQueues: CrawlQueues;
  readonly #objects = new Map<string, Proxied>();
  readonly #callers = new Set<Caller>();
  readonly #settling = new Set<NodeJS.Timeout>();
  readonly #farewells = new Farewells(() => performance.now());
  readonly #functions = new Map<string, ServerFunction>([
    ['dummy', { parameters: [], run: () => null }],
    ['number_of_objects', { parameters: [], run: () => this.#objects.size }],
    ['debug_info', { parameters: [], run: () => this.#describe() }],
    ['incref', { parameters: [['ident']], run: (caller, [ident]) => this.#incref(caller, ident) }],
    ['decref', { parameters: [['ident']], run: (caller, [ident]) => this.#decref(caller, ident) }],
    ['get_methods', { parameters: [['token']], run: (_, [token]) => this.#methods(token) }],
  ]);

  /** What a request or an item may take of memory when it has to be built, in bytes. */
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

  /** It makes a request, to whichever object. */
  heard(caller: Caller): void {
    this.#crawlQueues.heard(caller);
  }

  /** It names a proxy for the first time. */
  named(caller: Caller): void {
    this.#farewells.link(addressOf(caller), [...caller.idents]);
  }

  /** It is gone; what it had of these is settled when it is known how it ended. */
  left(caller: Caller, used: ReadonlyMap<Proxied, ReadonlySet<string>>): void {
    this.#callers.delete(caller);
    const settle = () => {
      for (const [object, idents] of used) object.gone(caller, this.#isOrderly(caller, idents));
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

  #isOrderly(caller: Caller, idents: ReadonlySet<string>): boolean {
    if (isThread(caller) && [...this.#callers].some((other) => this.#areOne(caller, other))) {
      return true;
    }
    const [address, process] = [addressOf(caller), processOf(caller)];
    return [...idents].some((ident) =>
      this.#farewells.take(address, ident, process, isThread(caller)),
    );
  }

  /** Two connections of one process: by the name that it gives itself, and by its proxies. Two
   *  programs of one machine may have the same name. */
  #areOne(one: Caller, other: Caller): boolean {
    const address = addressOf(one);
    if (addressOf(other) !== address || processOf(other) !== processOf(one)) return false;
    return this.areKin(one, other);
  }

  /** Two connections of one process or its forks, by their proxies. */
  areKin(one: Caller, other: Caller): boolean {
    const address = addressOf(one);
    const [ours] = one.idents;
    const [theirs] = other.idents;
    if (ours === undefined || theirs === undefined || addressOf(other) !== address) return false;
    return this.#farewells.areRelated(address, ours, theirs);
  }

  #create(caller: Caller, { args }: PyRequest): PyValue {
    const [name] = args;
    if (typeof name !== 'string' || !typeid.test(name)) {
      const shown = typeof name === 'string' ? quoted(name) : '?';
      throw new TracebackError('KeyError', `${shown}: a queue has a name like task_queue`);
    }
    const object = this.#open(name);
    const ident = this.#farewells.created(addressOf(caller), name);
    return new PyTuple([ident, exposed(object)]);
  }

  #open(name: string): Proxied {
    let object = this.#objects.get(name);
    if (object === undefined) {
      const { queues, isDraining } = this.#ports;
      const { isDurable, plain } = this.#options;
      object =
        isCrawlQueue(name) && !plain.has(name)
          ? this.#crawlQueues.open(name)
          : new PlainQueue(queues.queue(name), { isDurable, isDraining });
      this.#objects.set(name, object);
    }
    return object;
  }

  #incref(caller: Caller, ident: PyValue | undefined): null {
    this.object(ident ?? null);
    if (typeof ident === 'string') this.#farewells.incref(addressOf(caller), ident);
    return null;
  }

  /** Queues stay, whoever has proxies of them. */
  #decref(caller: Caller, ident: PyValue | undefined): null {
    this.object(ident ?? null);
    if (typeof ident === 'string') this.#farewells.decref(addressOf(caller), ident);
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
