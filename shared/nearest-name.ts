/** The name that was probably meant by one that there is not. */

/** Asks for the name of `known` that is nearest, for the end of a message. `otherwise`: what it says
 *  where none is as near as `errorsMax` letters to change, add or take away. */
export function didYouMean(
  name: string,
  known: Iterable<string>,
  otherwise: string,
  errorsMax = Math.max(2, name.length / 3),
): string {
  const nearest = nearestName(name, known, errorsMax);
  return nearest === undefined ? otherwise : `did you mean ${nearest}?`;
}

function nearestName(name: string, known: Iterable<string>, errorsMax: number): string | undefined {
  let best: string | undefined;
  let least = errorsMax;
  for (const one of known) {
    // The name comes from outside: a long one is not compared letter by letter.
    if (Math.abs(one.length - name.length) > least) continue;
    const errors = editDistance(name, one);
    if (best === undefined ? errors <= least : errors < least) [best, least] = [one, errors];
  }
  return best;
}

/** Letters to change, add or take away. Source: Levenshtein (1965). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
