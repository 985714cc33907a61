/**
 * Did a client end in order, or did it die? TCP says the same of both: a FIN. A Python that ends
 * in order first says `decref` for every proxy, each over a short connection of its own, and then
 * closes; one that is killed says nothing. So a `decref` that does not belong to the making of a
 * proxy (create, incref, decref) is a farewell, good for one process whose connections end within
 * a second. A thread that ends says nothing either, but its process lives on: its other
 * connections stay.
 *
 * Short connections do not say whose they are, but each names the ident that its `create` was
 * answered with. So every `create` gets an ident of its own, `queue#n`, and what is said of one
 * proxy never counts for another client. Only the first of a queue gets the queue's name alone,
 * which clients may also use without a `create`: that one is counted by address.
 *
 * It errs to "died", unless a process is killed in the very moment in which another one that it
 * was forked from, or with, ends.
 */
const farewellMs = 1_000;
const identsMax = 10_000;
const processesMax = 64;
/** A program makes its proxies one after the other. */
const nextMakingMs = 100;

type Known = {
  /** Proxies of which only `create` was heard, and those of which `incref` was, too. */
  created: number;
  made: number;
  changedAt: number;
  farewells: number[];
  /** When a process, as it names itself, ended in order. */
  readonly ended: Map<string, number>;
};

/** Idents of one process and its forks, as far as is known: linked to the one that was first. */
type Family = { parent?: Family };

export class Farewells {
  readonly #now: () => number;
  readonly #run = Date.now().toString(36);
  #count = 0;
  readonly #named = new Set<string>();
  /** By ident; a queue's name alone with the address. */
  readonly #known = new Map<string, Known>();
  readonly #families = new Map<string, Family>();
  /** By address: whose making ended last. */
  readonly #lastMade = new Map<string, { readonly family: Family; readonly at: number }>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Gives the ident of a new proxy of the queue. */
  created(address: string, queue: string): string {
    const isFirst = !this.#named.has(queue);
    if (isFirst) this.#named.add(queue);
    const ident = isFirst ? queue : `${queue}#${this.#run}-${++this.#count}`;
    // A client may say the queue's name, whatever it was answered.
    for (const said of new Set([ident, queue])) this.#begin(address, said);
    const last = this.#lastMade.get(address);
    if (last !== undefined && this.#now() - last.at <= nextMakingMs) {
      this.#family(address, ident).parent = rootOf(last.family);
    }
    return ident;
  }

  incref(address: string, ident: string): void {
    const known = this.#of(address, ident);
    if (known.created === 0) return; // a fork's
    known.created--;
    known.made++;
    known.changedAt = this.#now();
  }

  decref(address: string, ident: string): void {
    const known = this.#of(address, ident);
    if (known.made > 0 && !this.#isStale(address, ident, known)) {
      known.made--;
      const family = rootOf(this.#family(address, ident));
      remember(this.#lastMade, address, { family, at: this.#now() });
    } else known.farewells.push(this.#now());
  }

  /** A process uses all of these. */
  link(address: string, [first, ...others]: readonly string[]): void {
    if (first === undefined) return;
    const family = rootOf(this.#family(address, first));
    for (const ident of others) {
      const other = rootOf(this.#family(address, ident));
      if (other !== family) other.parent = family;
    }
  }

  /** Both may belong to one process. */
  areRelated(address: string, one: string, other: string): boolean {
    return rootOf(this.#family(address, one)) === rootOf(this.#family(address, other));
  }

  /** Uses up a farewell of this ident, if there is one. It is the farewell of a `process`: the
   *  connections of its threads that end at the same time need none of their own. */
  take(address: string, ident: string, process: string, isThread: boolean): boolean {
    const known = this.#known.get(keyOf(address, ident));
    if (known === undefined) return false;
    const since = this.#now() - 2 * farewellMs;
    if (isThread && (known.ended.get(process) ?? Number.NEGATIVE_INFINITY) >= since) return true;
    known.farewells = known.farewells.filter((at) => at >= since);
    if (known.farewells.shift() === undefined) return false;
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

  /** What several clients of an address may have said is not waited for: one of them died. */
  #isStale(address: string, ident: string, known: Known): boolean {
    return keyOf(address, ident) !== ident && this.#now() - known.changedAt > farewellMs;
  }

  #of(address: string, ident: string): Known {
    const key = keyOf(address, ident);
    const known = this.#known.get(key) ?? {
      ...{ created: 0, made: 0, changedAt: this.#now(), farewells: [] },
      ended: new Map(),
    };
    remember(this.#known, key, known);
    if (known.farewells.length > 64) known.farewells.splice(0, 32);
    return known;
  }

  #family(address: string, ident: string): Family {
    const key = keyOf(address, ident);
    const family = this.#families.get(key) ?? {};
    remember(this.#families, key, family);
    return family;
  }
}

/** The queue that an ident is of. */
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

/** What was used last is at the end; the first is forgotten when there are too many. */
function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= identsMax) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
