/**
 * Did a client end in order, or did it die? TCP says the same of both: a FIN. A Python that ends
 * in order first says `decref` for every proxy, each over a short connection of its own, and then
 * closes; one that is killed says nothing. So a `decref` that does not belong to the making of a
 * proxy (create, incref, decref) is a farewell, good for one process at the same address whose
 * connections end within a second. A thread that ends says nothing either, but its process lives
 * on: its other connections stay.
 *
 * It errs to "died", unless one client of a machine is killed in the very moment in which another
 * one there ends.
 */
const farewellMs = 1_000;
const addressesMax = 10_000;
const processesMax = 64;

type Known = {
  creating: number;
  lastCreateAt: number;
  farewells: number[];
  /** When a process, as it names itself, ended in order. */
  readonly ended: Map<string, number>;
};

export class Farewells {
  readonly #now: () => number;
  /** By address and ident. */
  readonly #known = new Map<string, Known>();

  constructor(now: () => number) {
    this.#now = now;
  }

  created(address: string, ident: string): void {
    const known = this.#of(address, ident);
    // A client that dies between create and decref must not swallow a farewell for ever.
    if (this.#now() - known.lastCreateAt > farewellMs) known.creating = 0;
    known.creating++;
    known.lastCreateAt = this.#now();
  }

  decref(address: string, ident: string): void {
    const known = this.#of(address, ident);
    const isMaking = known.creating > 0 && this.#now() - known.lastCreateAt <= farewellMs;
    if (isMaking) known.creating--;
    else known.farewells.push(this.#now());
  }

  /** Uses up a farewell to this object, if there is one. It is the farewell of a `process`: the
   *  connections of its threads that end at the same time need none of their own. */
  take(address: string, ident: string, process: string, isThread: boolean): boolean {
    const known = this.#known.get(`${address} ${ident}`);
    if (known === undefined) return false;
    const since = this.#now() - 2 * farewellMs;
    if (isThread && (known.ended.get(process) ?? Number.NEGATIVE_INFINITY) >= since) return true;
    known.farewells = known.farewells.filter((at) => at >= since);
    if (known.farewells.shift() === undefined) return false;
    if (known.ended.size >= processesMax) known.ended.clear();
    known.ended.set(process, this.#now());
    return true;
  }

  #of(address: string, ident: string): Known {
    const key = `${address} ${ident}`;
    let known = this.#known.get(key);
    if (known === undefined) {
      known = { creating: 0, lastCreateAt: 0, farewells: [], ended: new Map() };
      if (this.#known.size >= addressesMax) this.#known.clear();
      this.#known.set(key, known);
    }
    if (known.farewells.length > 64) known.farewells.splice(0, 32);
    return known;
  }
}
