/**
 * Keeps the young part of V8's heap at 4 MiB a half. While much of what is new survives, as the
 * links of a commit do, V8 would let it grow to 16: a master then takes no more new links a second,
 * but 20 MB more memory. How far it may grow is settled when a process starts, and nobody starts a
 * master with flags. By how much it grows V8 looks up each time: by a factor of one, it does not.
 * So the start of master.js lets it grow to 4, and then no more (`scripts/build.mjs`). In other
 * versions than Node 20 the factor is no such limit.
 */
import v8 from 'node:v8';

/** Of both halves. */
const youngBytes = 8 << 20;
/** Objects of 64 KB: some 60 are needed. */
const filledMax = 200;
const doubling = 2;

/** With little to do, V8 makes it smaller: to be called while there is much to do. */
export function holdYoungHeap(): void {
  if (!process.version.startsWith('v20.')) return;
  if (youngSize() < youngBytes) fill();
  growBy(1);
}

/** It grows at a collection that finds enough in it. This takes some 3 ms. */
function fill(): void {
  growBy(doubling);
  const filled: number[][] = [];
  while (youngSize() < youngBytes && filled.length < filledMax) {
    filled.push(new Array<number>(8_000).fill(0));
  }
}

function growBy(factor: number): void {
  v8.setFlagsFromString(`--semi-space-growth-factor=${factor}`);
}

function youngSize(): number {
  const young = v8.getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
  return young?.space_size ?? 0;
}
