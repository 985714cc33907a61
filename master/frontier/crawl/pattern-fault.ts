/**
 * The place of a fault in a pattern that is not valid in RE2, for its operator. RE2 names a part of
 * the pattern, which may stand there more than once; so shorter patterns are tried. Pure.
 */

/** Returns the index of the faulty character. `problemOf` says what is wrong with a pattern. */
export function faultAt(
  source: string,
  problemOf: (source: string) => string | undefined,
): number | undefined {
  const problem = problemOf(source);
  if (problem === undefined) return undefined;
  const bracket = unpaired(source);
  if (/[()]|closing \]/.test(problem.split('`')[0] ?? '') && bracket !== undefined) return bracket;
  // The first part of the pattern that has the same fault ends with it.
  const kind = kindOf(problem);
  let end = 1;
  while (end < source.length && kindOf(problemOf(source.slice(0, end)) ?? '') !== kind) end++;
  const part = /`(.*)`$/s.exec(problem)?.[1] ?? '';
  const at = source.lastIndexOf(part, end - part.length);
  return part !== '' && at >= 0 ? at : end - 1;
}

function kindOf(problem: string): string {
  return problem.replace(/: `.*$/s, '');
}

/** The first bracket or parenthesis without its partner. */
function unpaired(source: string): number | undefined {
  const open: number[] = [];
  for (let at = 0; at < source.length; at++) {
    const char = source.charAt(at);
    if (char === '\\') at++;
    else if (char === '(') open.push(at);
    else if (char === ')' && open.pop() === undefined) return at;
    else if (char === '[') {
      const end = classEnd(source, at);
      if (end === undefined) return at;
      at = end;
    }
  }
  return open.at(-1);
}

/** The index of the bracket that ends a class; a first one is literal. */
function classEnd(source: string, from: number): number | undefined {
  let at = from + (source.charAt(from + 1) === '^' ? 2 : 1);
  if (source.charAt(at) === ']') at++;
  for (; at < source.length; at++) {
    if (source.charAt(at) === '\\') at++;
    else if (source.charAt(at) === ']') return at;
  }
  return undefined;
}
