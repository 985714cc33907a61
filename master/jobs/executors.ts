/** The connected slaves that take commands: what each runs, and which jobs it has. */
import { callText, type JobCall } from '../../shared/jobs.ts';
import type { Push } from '../../shared/protocol.ts';

/** A session of a slave: `Peer`. */
export type JobPeer = {
  readonly name: string;
  send(push: Push): void;
  /** Bytes that it has not read yet. */
  readonly unreadBytes: number;
  readonly record: { readonly isDraining: boolean };
};

export type Executor = {
  readonly peer: JobPeer;
  /** Of its process, in hexadecimal. */
  readonly instance: string;
  slots: number;
  programs: ReadonlySet<string>;
  scripts: ReadonlySet<string>;
  readonly jobs: Set<number>;
};

/** Requirements of a job on its slave. */
export type Wish = JobCall & { readonly on: string; readonly bound?: string | undefined };

const shownMax = 8;

export class Executors {
  readonly #all = new Map<JobPeer, Executor>();

  of(peer: JobPeer): Executor | undefined {
    return this.#all.get(peer);
  }

  /** A process has one session: an older one of it is dead, though its end is not known yet. */
  set(executor: Executor): void {
    for (const other of this.#all.values()) {
      if (other.instance === executor.instance) other.slots = 0;
    }
    this.#all.set(executor.peer, executor);
  }

  delete(peer: JobPeer): void {
    this.#all.delete(peer);
  }

  /** Those that take commands. */
  get working(): Executor[] {
    return [...this.#all.values()].filter(
      ({ slots, peer }) => slots > 0 && !peer.record.isDraining,
    );
  }

  /** The one with most room that may run it; undefined: none has room. */
  free(wish: Wish): Executor | undefined {
    let best: Executor | undefined;
    for (const executor of this.#all.values()) {
      const room = roomOf(executor);
      if (room <= 0 || (best !== undefined && roomOf(best) >= room)) continue;
      if (isMeant(executor, wish) && allows(executor, wish)) best = executor;
    }
    return best;
  }

  /** Why no slave that is connected may run it; undefined: one may. */
  refusal(wish: Wish): string | undefined {
    const all = this.working;
    if (all.length === 0) {
      return 'no slave that takes commands is connected: start one with --allow-exec or --exec-folder';
    }
    const meant = all.filter((executor) => isMeant(executor, wish));
    if (meant.length === 0) {
      const names = all.map(({ peer }) => peer.name);
      return `no slave "${wish.on}" that takes commands is connected; there are ${listed(names)}`;
    }
    if (wish.on === 'every') {
      const not = meant.filter((executor) => !allows(executor, wish));
      return not.length === 0 ? undefined : notAllowed(wish, not, true);
    }
    return meant.some((executor) => allows(executor, wish))
      ? undefined
      : notAllowed(wish, meant, false);
  }
}

/** In words. */
function notAllowed(wish: Wish, by: readonly Executor[], isEvery: boolean): string {
  const what = wish.program ?? `script ${wish.script}`;
  const [first] = by;
  const list = first === undefined ? [] : wish.program ? first.programs : first.scripts;
  const has = listed([...list]);
  const kind = wish.program ? 'programs' : 'scripts';
  if (by.length === 1)
    return `slave ${first?.peer.name} does not allow ${what}; its ${kind}: ${has}`;
  const names = listed(by.map(({ peer }) => peer.name));
  if (isEvery) return `these slaves do not allow ${what}: ${names}`;
  return `no connected slave allows ${what}; the ${kind} of ${first?.peer.name}: ${has}`;
}

/** Says for people why a job waits: no slave that allows it, or none with room. */
export function waitText(wish: Wish, refusal: string | undefined): string {
  if (refusal !== undefined) return refusal;
  return `every slave that allows ${callText({ ...wish, args: [] })} is busy`;
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return 'none';
  const more = names.length > shownMax ? ` and ${names.length - shownMax} more` : '';
  return `${names.slice(0, shownMax).join(', ')}${more}`;
}

function roomOf({ slots, jobs, peer }: Executor): number {
  return peer.record.isDraining ? 0 : slots - jobs.size;
}

function allows({ programs, scripts }: Executor, { program, script }: Wish): boolean {
  return program === undefined ? scripts.has(script ?? '') : programs.has(program);
}

/** May it run there, if it is allowed? A slave of several processes has one that takes commands. */
function isMeant({ peer: { name }, instance }: Executor, { on, bound }: Wish): boolean {
  if (bound !== undefined) return bound === instance;
  if (on === 'any' || on === 'every') return true;
  return name === on || name === `${on}.1`;
}
