/**
 * Finds the ends of scripts and comments, which contain no elements and have rules of their own.
 * Pure functions over the scanner's buffer.
 * Source: HTML Standard 13.2.5.15 to 13.2.5.31 (script data), 13.2.5.43 to 13.2.5.52 (comments).
 */
import { dash, isTag, slash } from './elements.ts';

/** In `escaped` a comment is open in the script, in `double` also a script in that comment. */
export type ScriptDepth = 'plain' | 'escaped' | 'double';

type ScriptScan = {
  /** After "</script" if `ended`, else the position at which to continue with more input. */
  at: number;
  depth: ScriptDepth;
  ended: boolean;
};

/** Read script data from `from`: `<!-- <script> </script> -->` does not end it. */
export function scanScript(
  buffer: string,
  from: number,
  before: ScriptDepth,
  last: boolean,
): ScriptScan {
  let at = from;
  let depth = before;
  // Found once for many "<": -2: not searched yet, -1: none in this buffer.
  let close = -2;
  for (;;) {
    const open = buffer.indexOf('<', at);
    if (depth !== 'plain') {
      if (close !== -1 && close < at) close = buffer.indexOf('-->', at);
      if (close >= 0 && (open < 0 || close < open)) {
        depth = 'plain';
        at = close + 3;
        continue;
      }
    }
    if (open < 0) {
      const keep = depth === 'plain' ? buffer.length : Math.max(at, buffer.length - 2);
      return { at: keep, depth, ended: false };
    }
    // "</script" and the character after it.
    if (open + 9 > buffer.length && !last) return { at: open, depth, ended: false };
    if (depth === 'plain' && buffer.startsWith('<!--', open)) {
      depth = 'escaped';
      // Its dashes may also be the first two of "-->".
      at = open + 2;
    } else if (depth === 'escaped' && isTag(buffer, open + 1, 'script')) {
      depth = 'double';
      at = open + 7;
    } else if (buffer.charCodeAt(open + 1) === slash && isTag(buffer, open + 2, 'script')) {
      if (depth !== 'double') return { at: open + 8, depth, ended: true };
      depth = 'escaped';
      at = open + 8;
    } else {
      at = open + 1;
    }
  }
}

/**
 * Index after the ">" that ends the comment whose content begins at `start`, or -1. `fresh`: nothing
 * of it has been consumed, so that `<!-->` and `<!--->` end it.
 */
export function commentEnd(buffer: string, start: number, fresh: boolean): number {
  for (let end = buffer.indexOf('>', start); end >= 0; end = buffer.indexOf('>', end + 1)) {
    if (end - start >= 2 && buffer.startsWith('--', end - 2)) return end + 1;
    if (end - start >= 3 && buffer.startsWith('--!', end - 3)) return end + 1;
    if (!fresh) continue;
    if (end === start || (end === start + 1 && buffer.charCodeAt(start) === dash)) return end + 1;
  }
  return -1;
}
