/**
 * Links of one message in parts, so that no commit takes long: a slave may name a million at once.
 * Pure. `Reports` puts each part into the filter queue.
 */

/** Bytes of links that are taken at once. */
export const linkBytesMax = 64 << 10;
const lineFeed = 10;

/** Whole lines in parts, until no more than `keptBytes` are left: the rest. */
export function partsOf(
  lines: Uint8Array,
  keptBytes = linkBytesMax,
): { readonly parts: Uint8Array[]; readonly rest: Uint8Array } {
  const parts: Uint8Array[] = [];
  let rest = lines;
  while (rest.length > keptBytes) {
    const cut = rest.lastIndexOf(lineFeed, linkBytesMax - 1) + 1;
    // Longer than any URL, so it will be dropped.
    if (cut === 0) break;
    parts.push(rest.subarray(0, cut));
    rest = rest.subarray(cut);
  }
  return { parts, rest };
}
