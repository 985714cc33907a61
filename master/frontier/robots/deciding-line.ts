/**
 * Which line of a robots.txt decides about a URL, for operators. The verdict is that of
 * `parser.ts`; this file only finds where its rule stands. Pure.
 */
import { asUtf8, parseRobots } from './parser.ts';

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
/** A longer line is shown by its beginning. */
const shownBytes = 200;

/** The verdict of a robots.txt on a URL, and the line that decides. */
type LineVerdict = {
  readonly allows: boolean;
  /** From 1; undefined: no line decides. */
  readonly line?: number;
  /** As written, without white space around it. */
  readonly text?: string;
};

/** `path` is that of a URL, with its query. Never throws. */
export function decidingLine(file: Uint8Array, productToken: string, path: string): LineVerdict {
  const bytes = asUtf8(file);
  const rules: { at: number; patterns: readonly string[]; allow: boolean; isOurs: boolean }[] = [];
  const robots = parseRobots(bytes, productToken, undefined, (rule) => rules.push(rule));
  const allows = robots.allows(path);
  const rule = robots.deciding(path);
  if (rule === undefined) return { allows };
  const found = rules.filter(({ patterns, allow }) => {
    return allow === rule.allow && patterns.includes(rule.pattern);
  });
  // Those for all count where no group has our name.
  const first = found.find(({ isOurs }) => isOurs) ?? found[0];
  if (first === undefined) return { allows };
  return { allows, line: lineNumberAt(bytes, first.at), text: lineAt(bytes, first.at) };
}

/** As an editor counts: a line ends with CR, LF, or both. */
function lineNumberAt(bytes: Uint8Array, at: number): number {
  let line = 1;
  for (let i = 0; i < at; i++) {
    if (bytes[i] === lineFeed || (bytes[i] === carriageReturn && bytes[i + 1] !== lineFeed)) line++;
  }
  return line;
}

function lineAt(bytes: Uint8Array, at: number): string {
  let begin = at;
  let end = at;
  while (begin > 0 && !isEnd(bytes[begin - 1])) begin--;
  while (end < bytes.length && !isEnd(bytes[end])) end++;
  const text = Buffer.from(bytes.subarray(begin, Math.min(end, begin + shownBytes)));
  return text
    .toString('utf8')
    .replace(/^\uFEFF/, '')
    .trim();
}

function isEnd(octet: number | undefined): boolean {
  return octet === lineFeed || octet === carriageReturn;
}
