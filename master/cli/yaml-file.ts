/** Files of the operator in YAML or JSON, and the line of each value in them. */
import { isUtf8 } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import {
  type Document,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
} from 'yaml';
import { ConfigError, messageOf } from '../../shared/errors.ts';

const bytesMax = 16 << 20;
/** Lists and maps within each other; what reads them goes as deep. */
const levelsMax = 50;
/** Uses of one alias, multiplied by those of aliases within it: a short file may stand for much. */
const aliasesMax = 1000;

type YamlFile = {
  readonly value: unknown;
  /** The line of what stands at this path, or of the last part of the path that is there. */
  lineOf(path: readonly PropertyKey[]): number;
};

/** `what`: the kind of file, for errors. `given`: its text, as JSON, where that is not in a file;
 *  it stands for one at `path`. @throws ConfigError */
export function readYaml(path: string, what: string, given?: string): YamlFile {
  const text = given ?? textOf(path, what);
  try {
    // 100,000 seeds take seconds as YAML. That is needed for the line of a fault alone.
    if (given !== undefined) {
      const value: unknown = JSON.parse(given);
      const lineOf = (at: readonly PropertyKey[]) => lineIn(parsed(given), at);
      refuseOdd(value, path, lineOf);
      return { value, lineOf };
    }
    const file = parsed(text);
    // A tag that nobody knows is a warning: its value would be taken without it.
    const [error] = [...file.document.errors, ...file.document.warnings];
    if (error?.code === 'MULTIPLE_DOCS') {
      const line = file.lines.linePos(error.pos[0]).line;
      throw new ConfigError(`${path}:${line}: must be one document, without --- between two`);
    }
    if (error !== undefined) throw error;
    const value = valueIn(file);
    const lineOf = (at: readonly PropertyKey[]) => lineIn(file, at);
    refuseOdd(value, path, lineOf);
    return { value, lineOf };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    // The lines after the first show the file's text.
    const [why = ''] = String(error instanceof Error ? error.message : error).split(/:?\n/);
    throw new ConfigError(`${path} is not YAML: ${why}`, error);
  }
}

function parsed(text: string) {
  const lines = new LineCounter();
  // `merge`: the key `<<`. `logLevel`: the library prints warnings of its own.
  const options = { schema: 'core', merge: true, logLevel: 'error' } as const;
  return { document: parseDocument(text, { ...options, lineCounter: lines }), lines };
}

/** @throws Error of an alias or a merge, with its line */
function valueIn({ document, lines }: ReturnType<typeof parsed>): unknown {
  try {
    return document.toJS({ maxAliasCount: aliasesMax }) ?? {};
  } catch (error) {
    const [offset = 0] = faulty(document.contents, document)?.range ?? [];
    throw new Error(`${messageOf(error)} at line ${lines.linePos(offset).line}`);
  }
}

/** Returns the innermost part that has no value. */
function faulty(node: Node | null, document: Document): Node | null {
  let parts: unknown[] = [];
  if (isMap(node)) parts = node.items.map(({ value }) => value);
  else if (isSeq(node)) parts = node.items;
  for (const part of parts) {
    if (!isNode(part)) continue;
    try {
      part.toJS(document, { maxAliasCount: aliasesMax });
    } catch {
      return faulty(part, document);
    }
  }
  return node;
}

/** Refuses what those who read the value would lose, or would not come back from: an alias of a map
 *  within itself, and a key that JavaScript takes for something else.
 *  @throws ConfigError with the line */
function refuseOdd(
  value: unknown,
  path: string,
  lineOf: (at: readonly PropertyKey[]) => number,
  at: readonly PropertyKey[] = [],
): void {
  if (typeof value !== 'object' || value === null) return;
  const fault = (where: readonly PropertyKey[], why: string) =>
    new ConfigError(`${path}:${lineOf(where)}: ${where.slice(0, 8).map(String).join('.')}: ${why}`);
  if (value instanceof Uint8Array) throw fault(at, 'must be text, not !!binary');
  if (at.length > levelsMax) {
    throw fault(at, `is more than ${levelsMax} levels deep, or holds itself by an alias`);
  }
  // At the top it is an unknown key, which is reported as such.
  const isLost = at.length > 0 && Object.hasOwn(value, '__proto__');
  if (isLost) throw fault([...at, '__proto__'], 'cannot be a key');
  for (const key in value) {
    const inner = (value as Record<string, unknown>)[key];
    if (typeof inner === 'object') refuseOdd(inner, path, lineOf, [...at, key]);
  }
}

function lineIn(
  { document, lines }: ReturnType<typeof parsed>,
  at: readonly PropertyKey[],
): number {
  return lines.linePos(offsetOf(document.contents, at)).line;
}

function textOf(path: string, what: string): string {
  try {
    const found = statSync(path);
    // A device may have no end.
    if (found.isCharacterDevice()) throw new ConfigError(`${path} is not a file`);
    if (found.size > bytesMax) {
      throw new ConfigError(`${path} is larger than ${bytesMax >> 20} MB: it is not a ${what}`);
    }
    const bytes = readFileSync(path);
    if (!isUtf8(bytes)) throw new ConfigError(`${path}:${oddLine(bytes)}: is not UTF-8`);
    return bytes.toString('utf8');
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`cannot read the ${what} ${path}: ${messageOf(error)}`, error);
  }
}

/** The first line that is not UTF-8. */
function oddLine(bytes: Buffer): number {
  let line = 1;
  for (let at = 0; at < bytes.length; line++) {
    const end = bytes.indexOf('\n', at) + 1 || bytes.length;
    if (!isUtf8(bytes.subarray(at, end))) return line;
    at = end;
  }
  return line;
}

function offsetOf(contents: Node | null, path: readonly PropertyKey[]): number {
  let node: unknown = contents;
  let offset = contents?.range?.[0] ?? 0;
  for (const key of path) {
    if (isMap(node)) {
      const pair = node.items.find(
        (one) => isScalar(one.key) && String(one.key.value) === String(key),
      );
      if (pair === undefined) return offset;
      if (isScalar(pair.key)) offset = pair.key.range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq(node)) {
      const item = node.items[Number(key)] as Node | undefined;
      if (item === undefined) return offset;
      offset = item.range?.[0] ?? offset;
      node = item;
    } else return offset;
  }
  return offset;
}
