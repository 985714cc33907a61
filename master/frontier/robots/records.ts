/**
 * The records of a robots.txt, line by line: key, and position of the value. They are read as by
 * Google's matcher, because authors test their files with it. Pure.
 * Source: RFC 9309, section 2.2; google/robotstxt, robots.cc.
 */
type RecordKey = 'user-agent' | 'allow' | 'disallow' | 'sitemap' | 'crawl-delay';
/** Its value is `bytes[from, end)`, without the space around it. */
type RobotsRecord = {
  readonly key: RecordKey;
  readonly from: number;
  readonly end: number;
};

/** The keys, and the common misspellings that Google's matcher accepts, too. */
const keyNames: readonly (readonly [RecordKey, string])[] = [
  ['user-agent', 'user-agent'],
  ['user-agent', 'useragent'],
  ['user-agent', 'user agent'],
  ['allow', 'allow'],
  ['disallow', 'disallow'],
  ['disallow', 'dissallow'],
  ['disallow', 'dissalow'],
  ['disallow', 'disalow'],
  ['disallow', 'diasllow'],
  ['disallow', 'disallaw'],
  ['sitemap', 'sitemap'],
  ['sitemap', 'site-map'],
  ['crawl-delay', 'crawl-delay'],
];
const keyBytes = keyNames.map(([key, name]) => ({ key, bytes: Buffer.from(name) }));

/**
 * Returns the record of a line, without its comment. The first colon ends the key. In a line
 * without one, white space does, if the line has only key and value. Source: google/robotstxt,
 * `GetKeyAndValueFrom`.
 */
export function recordOf(
  bytes: Uint8Array,
  lineStart: number,
  lineEnd: number,
): RobotsRecord | undefined {
  let end = lineStart;
  // A NUL ends the line for Google's matcher, too.
  while (end < lineEnd && bytes[end] !== 0x23 && bytes[end] !== 0) end++;
  end = trimmedEnd(bytes, lineStart, end);
  const start = skipSpace(bytes, lineStart, end);
  let keyEnd = start;
  while (keyEnd < end && bytes[keyEnd] !== 0x3a) keyEnd++;
  let from = keyEnd + 1;
  if (keyEnd === end) {
    keyEnd = blankFrom(bytes, start, end);
    from = skipSpace(bytes, keyEnd, end);
    if (keyEnd === end || blankFrom(bytes, from, end) < end) return undefined;
  }
  const key = keyOf(bytes, start, trimmedEnd(bytes, start, keyEnd));
  return key === undefined ? undefined : { key, from: skipSpace(bytes, from, end), end };
}

/** Returns the key of a record. More words may precede its colon, more letters may not:
 *  `Disallowed` is another key, though Google's matcher accepts it. */
function keyOf(bytes: Uint8Array, start: number, end: number): RecordKey | undefined {
  for (const { key, bytes: letters } of keyBytes) {
    if (end - start < letters.length) continue;
    let at = 0;
    while (at < letters.length && lower(bytes[start + at]) === letters[at]) at++;
    if (at < letters.length) continue;
    if (start + at === end || isSpace(bytes[start + at])) return key;
  }
  return undefined;
}

function skipSpace(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && isSpace(bytes[at])) at++;
  return at;
}

function trimmedEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = end;
  while (at > start && isSpace(bytes[at - 1])) at--;
  return at;
}

/** Index of the first space or tab from `from` on, or `end`. */
function blankFrom(bytes: Uint8Array, from: number, end: number): number {
  let at = from;
  while (at < end && bytes[at] !== 0x20 && bytes[at] !== 0x09) at++;
  return at;
}

/** ASCII white space; vertical tab and form feed, which are not separators, may surround values. */
function isSpace(octet: number | undefined): boolean {
  return octet === 0x20 || (octet !== undefined && octet >= 0x09 && octet <= 0x0d);
}

function lower(octet: number | undefined): number {
  if (octet === undefined) return -1;
  return octet >= 0x41 && octet <= 0x5a ? octet + 32 : octet;
}
