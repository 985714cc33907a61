/** The links of one page in parts, so that no commit takes long for a page with very many. */

/** Links of one page that are taken at once, in bytes. */
const partBytesMax = 64 << 10;
const lineFeed = 10;

/** Parts that end with a line; the last one is whatever is left. */
export function partsOfLinks(links: Uint8Array): { first: Uint8Array[]; last: Uint8Array } {
  const first: Uint8Array[] = [];
  let last = links;
  while (last.length > partBytesMax) {
    const cut = last.lastIndexOf(lineFeed, partBytesMax - 1) + 1;
    // Longer than any URL: nothing will come of it.
    if (cut === 0) break;
    first.push(last.subarray(0, cut));
    last = last.subarray(cut);
  }
  return { first, last };
}
