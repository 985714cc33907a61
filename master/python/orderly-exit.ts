/**
 * Tells clients that exit in order from those that die. TCP shows the same for both: a FIN. A
 * Python process that exits in order first sends `decref` for every proxy, each over a short
 * connection of its own, and then closes; a killed one sends nothing. So a `decref` that does not
 * belong to the making of a proxy (create, incref, decref) announces an exit. It counts for one
 * process whose connections end within a second. A thread that ends sends nothing either, but the
 * other connections of its process stay.
 *
 * A program that makes a proxy for each call, as in `m.jobs().get()`, sends a `decref` when it
 * drops one, too. It goes on only if it holds another proxy, whose `decref` will announce its exit.
 *
 * Short connections do not name their process, but each names the ident from its `create`. So every
 * `create` gets an ident of its own, `queue#n`, and a message about one proxy never counts for
 * another client. Only the first `create` of a queue gets the queue's name alone, which clients may
 * also use without a `create`: that ident is counted by address.
 *
 * It errs towards "died", unless a process is killed at the very moment at which its parent or a
 * sibling exits.
 */
const exitMs = 1_000;
const identsMax = 10_000;
const processesMax = 64;
/** A program makes its proxies one after the other. */
const nextMakingMs = 100;

type Known = {
  /** Proxies with a `create` only, and those with an `incref`, too. */
  created: number;
  made: number;
  changedAt: number;
  /** Proxies that are in use: those that were made, and those of forks. */
  held: number;
  exits: number[];
  /** When each process, by the name that it gives itself, exited in order. */
  readonly ended: Map<string, number>;
};

/** Idents of one process and its forks, as far as is known: linked to the one that was first. */
type Family = { parent?: Family };

/** The proxies that the clients of an address make. The protocol does not name the
 *  client: a second one that comes right after is of the same client, unless several are at it. */
type Makings = {
  /** Idents without the `decref` that ends their making, the oldest first. */
  readonly open: Map<string, number>;
  /** The family whose making ended last. */
  last: { readonly family: Family; readonly at: number } | undefined;
  connectedAt: number;
  /** Until then several clients may be at it. */
  mixedUntil: number;
};

export class OrderlyExits {
  readonly #now: () => number;
  readonly #run = Date.now().toString(36);
  #count = 0;
  readonly #named = new Set<string>();
  /** By ident; a queue's name alone with the address. */
  readonly #known = new Map<string, Known>();
  readonly #families = new Map<string, Family>();
  /** By address. */
  readonly #makings = new Map<string, Makings>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A client begins: its `connect`. */
  connected(address: string): void {
    const makings = this.#makingsOf(address);
    const now = this.#now();
    const isOther = makings.open.size > 0 || now - makings.connectedAt <= exitMs;
    if (isOther || this.#lastOf(makings) !== undefined) makings.mixedUntil = now + exitMs;
    makings.connectedAt = now;
  }

  /** Returns the ident of a new proxy of the queue. */
  created(address: string, queue: string): string {
    const isFirst = !this.#named.has(queue);
    if (isFirst) this.#named.add(queue);
    const ident = isFirst ? queue : `${queue}#${this.#run}-${++this.#count}`;
    // A client may use the queue's name, whichever ident it got.
    for (const said of new Set([ident, queue])) this.#begin(address, said);
    const makings = this.#makingsOf(address);
    const now = this.#now();
    if (makings.open.size > 0) makings.mixedUntil = now + exitMs;
    const last = this.#lastOf(makings);
    if (last !== undefined && now > makings.mixedUntil) {
      join(rootOf(last.family), this.#family(address, ident));
    }
    makings.open.set(ident, now);
    return ident;
  }

  incref(address: string, ident: string): void {
    const known = this.#of(address, ident);
    known.held++;
    if (known.created === 0) return; // by a fork
    known.created--;
    known.made++;
    known.changedAt = this.#now();
    const queue = queueOf(ident);
    if (queue === ident) return;
    // It does not use the queue's name. Else the next fork of who does would count as its making.
    const named = this.#of(address, queue);
    named.created = Math.max(0, named.created - 1);
  }

  decref(address: string, ident: string): void {
    const known = this.#of(address, ident);
    if (known.made > 0 && !this.#isStale(address, ident, known)) {
      known.made--;
      const makings = this.#makingsOf(address);
      makings.open.delete(ident);
      makings.last = { family: this.#family(address, ident), at: this.#now() };
    } else {
      known.held--;
      known.exits.push(this.#now());
    }
  }

  /** Has its client dropped all proxies with this ident? */
  isDropped(address: string, ident: string): boolean {
    const known = this.#known.get(keyOf(address, ident));
    return known !== undefined && known.held <= 0 && known.exits.length > 0;
  }

  /** Records that one process uses all of these idents. */
  link(address: string, [first, ...others]: readonly string[]): void {
    if (first === undefined) return;
    const family = rootOf(this.#family(address, first));
    for (const ident of others) join(family, this.#family(address, ident));
  }

  /** May both idents belong to one process? */
  areRelated(address: string, one: string, other: string): boolean {
    return rootOf(this.#family(address, one)) === rootOf(this.#family(address, other));
  }

  /** Uses up an announced exit of this ident, if there is one. It is the exit of a `process`:
   *  connections of its threads that end at the same time need none of their own. */
  take(address: string, ident: string, process: string, isThread: boolean): boolean {
    const known = this.#known.get(keyOf(address, ident));
    if (known === undefined) return false;
    const since = this.#now() - 2 * exitMs;
    if (isThread && (known.ended.get(process) ?? Number.NEGATIVE_INFINITY) >= since) return true;
    known.exits = known.exits.filter((at) => at >= since);
    if (known.exits.shift() === undefined) return false;
    if (known.ended.size >= processesMax) known.ended.clear();
    known.ended.set(process, this.#now());
    return true;
  }

  #begin(address: string, ident: string): void {
    const known = this.#of(address, ident);
    if (this.#isStale(address, ident, known)) known.created = known.made = 0;
    known.created++;
    known.changedAt = this.#now();
  }

  /** True: for an ident that several clients of an address share, a half-made proxy is too old; its
   *  client died. */
  #isStale(address: string, ident: string, known: Known): boolean {
    return keyOf(address, ident) !== ident && this.#now() - known.changedAt > exitMs;
  }

  #of(address: string, ident: string): Known {
    const key = keyOf(address, ident);
    const known = this.#known.get(key) ?? {
      created: 0,
      made: 0,
      held: 0,
      changedAt: this.#now(),
      exits: [],
      ended: new Map(),
    };
    remember(this.#known, key, known);
    if (known.exits.length > 64) known.exits.splice(0, 32);
    return known;
  }

  #makingsOf(address: string): Makings {
    const never = Number.NEGATIVE_INFINITY;
    const makings = this.#makings.get(address) ?? {
      open: new Map(),
      last: undefined,
      connectedAt: never,
      mixedUntil: never,
    };
    remember(this.#makings, address, makings);
    // The client of one that is not ended by now has died.
    for (const [ident, at] of makings.open) {
      if (this.#now() - at <= exitMs) break;
      makings.open.delete(ident);
    }
    return makings;
  }

  /** The proxy that was made right before now. */
  #lastOf({ last }: Makings): Makings['last'] {
    return last !== undefined && this.#now() - last.at <= nextMakingMs ? last : undefined;
  }

  #family(address: string, ident: string): Family {
    const key = keyOf(address, ident);
    const family = this.#families.get(key) ?? {};
    remember(this.#families, key, family);
    return family;
  }
}

/** Returns the queue of an ident. */
export function queueOf(ident: string): string {
  const end = ident.indexOf('#');
  return end < 0 ? ident : ident.slice(0, end);
}

function keyOf(address: string, ident: string): string {
  return ident.includes('#') ? ident : `${address} ${ident}`;
}

function rootOf(family: Family): Family {
  let root = family;
  while (root.parent !== undefined) root = root.parent;
  if (root !== family) family.parent = root;
  return root;
}

/** `root` has no parent. A family that is its own parent would have no root. */
function join(root: Family, family: Family): void {
  const other = rootOf(family);
  if (other !== root) other.parent = root;
}

/** Keeps entries in order of use; drops the oldest when there are too many. */
function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= identsMax) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
