/** Files of the operator in YAML or JSON, and the line of each value in them. */
import { readFileSync, statSync } from 'node:fs';
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { ConfigError, messageOf } from '../../shared/errors.ts';

const bytesMax = 16 << 20;

type YamlFile = {
  readonly value: unknown;
  /** The line of what stands at this path, or of the last part of the path that is there. */
  lineOf(path: readonly PropertyKey[]): number;
};

/** `what`: the kind of file, for errors. `given`: its text, as JSON, where that is not in a file; it
 *  stands for one at `path`. @throws ConfigError */
export function readYaml(path: string, what: string, given?: string): YamlFile {
  const text = given ?? textOf(path, what);
  try {
    // 100,000 seeds take seconds as YAML. That is needed for the line of a fault alone.
    if (given !== undefined) {
      const value: unknown = JSON.parse(given);
      return { value, lineOf: (at) => lineIn(parsed(given), at) };
    }
    const file = parsed(text);
    const [error] = file.document.errors;
    if (error !== undefined) throw error;
    const value: unknown = file.document.toJS({ maxAliasCount: 10 }) ?? {};
    return { value, lineOf: (at) => lineIn(file, at) };
  } catch (error) {
    // The lines after the first show the file's text.
    const [why = ''] = String(error instanceof Error ? error.message : error).split(/:?\n/);
    throw new ConfigError(`${path} is not YAML: ${why}`, error);
  }
}

function parsed(text: string) {
  const lines = new LineCounter();
  return { document: parseDocument(text, { lineCounter: lines, schema: 'core' }), lines };
}

function lineIn(
  { document, lines }: ReturnType<typeof parsed>,
  at: readonly PropertyKey[],
): number {
  return lines.linePos(offsetOf(document.contents, at)).line;
}

function textOf(path: string, what: string): string {
  try {
    if (statSync(path).size > bytesMax) {
      throw new ConfigError(`${path} is larger than ${bytesMax >> 20} MB: it is no ${what}`);
    }
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(`cannot read the ${what} ${path}: ${messageOf(error)}`, error);
  }
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
