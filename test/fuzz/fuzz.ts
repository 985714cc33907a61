/** Fuzzes a master of its own until so many frames are tried. */
import { Target } from '../support/target.ts';
import { GoodPeer } from './good-peer.ts';
import { type Counts, Lane } from './lane.ts';
import { Mutator } from './mutator.ts';
import { record, type Traffic } from './recording.ts';

/** Every connection has to end within this: a master that hangs is found out. */
const hangMs = 60_000;
/** Connections until the crawls that mutants made are cancelled: they would only fill the disk. */
const tidyEvery = 2_000;

type Fuzzed = { counts: Counts; pings: readonly number[]; verbs: readonly string[] };

/** @throws Error the master ended, hung, or something of a well-behaved session was changed */
export async function fuzz(options: {
  readonly frames: number;
  readonly seed: number;
  readonly lanes: number;
  readonly traffic?: Traffic;
  readonly onProgress?: (counts: Counts, pings: readonly number[], pid: number) => void;
}): Promise<Fuzzed> {
  const traffic = options.traffic ?? (await record());
  // The good peer holds its leases all the time. [T-50]
  const target = await Target.open({}, ['--lease-margin', '86400']);
  try {
    const good = await GoodPeer.begin(target);
    const counts: Counts = { native: 0, python: 0, fatal: 0, connections: 0 };
    const { pid } = target.program;
    let verbs: string[] = [];
    let tidied = 0;
    const run = async (serial: number) => {
      const mutator = new Mutator(options.seed + serial, traffic);
      verbs = mutator.verbs;
      const lane = new Lane(target, mutator, counts);
      while (counts.native + counts.python < options.frames) {
        const kind = mutator.below(4);
        await withinMs(
          hangMs,
          kind === 0 ? lane.python() : lane.native(kind === 1 ? 'client' : 'slave'),
        );
        if (counts.connections - tidied > tidyEvery) {
          tidied = counts.connections;
          await good.cancelOthers(target);
        }
        options.onProgress?.(counts, good.pings, pid);
      }
    };
    const lanes = Promise.all(Array.from({ length: options.lanes }, (_, i) => run(i)));
    await Promise.race([lanes, good.running.then(() => lanes)]);
    await good.end();
    if (!target.program.isAlive) throw new Error(`the master ended: ${target.program.output}`);
    return { counts, pings: good.pings, verbs };
  } catch (error) {
    throw new Error(`seed ${options.seed}: ${tail(target.program.output)}`, { cause: error });
  } finally {
    await target.close();
  }
}

function tail(output: string): string {
  return output.slice(-2_000);
}

async function withinMs<T>(ms: number, what: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came for ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([what, late]);
  } finally {
    clearTimeout(timer);
  }
}
