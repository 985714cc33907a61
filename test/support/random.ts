/** Random numbers that are the same in every run: fingerprints and the like by the million. */

/** A generator of uint32 (xorshift128). */
export function randomUint32s(seed: number): () => number {
  let [x, y, z, w] = [123_456_789 ^ seed, 362_436_069, 521_288_629, 88_675_123];
  const next = () => {
    const t = x ^ (x << 11);
    [x, y, z] = [y, z, w];
    w = (w ^ (w >>> 19) ^ t ^ (t >>> 8)) >>> 0;
    return w;
  };
  for (let i = 0; i < 16; i++) next();
  return next;
}

/** Words of `count` random fingerprints. */
export function randomWords(count: number, seed: number): Uint32Array {
  const next = randomUint32s(seed);
  return new Uint32Array(count * 4).map(next);
}
