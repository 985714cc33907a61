/**
 * Whether the outputs of a crawl fit its rules and each other: names of rules and keys that there
 * are, names of fields that a table can have beside its own columns, and one output a file.
 * Source: docs/outputs.md.
 */
import { type FieldRule, fieldsOfRule, type ItemRules } from './items.ts';
import { linkMisfit, linkRule, linkRuleName, ownRules } from './link-rule.ts';
import { fieldsOfRecords } from './output-records.ts';
import {
  columnKinds,
  fileOf,
  isFileKind,
  isOutside,
  isSameTarget,
  keyKinds,
  type Output,
  type OutputKind,
  ownFault,
  partOf,
  recordsOf,
  tableNameOf,
} from './outputs.ts';

/** Columns of every table in a database. */
const ownNames: readonly string[] = ['_crawl', '_seq'];
const cursorTable = 'orbweaver_cursors';
/** Where columns that differ in their case alone are the same. */
const caselessKinds: readonly OutputKind[] = ['sqlite', 'mysql'];
/** Where a column holds any value. */
const looseKinds: readonly OutputKind[] = ['sqlite', 'mongodb'];

/** The first output that does not fit the rules of its crawl, or the outputs before it: its place
 *  in the list, and what is wrong, beginning with a verb. */
export function misfitOf(
  outputs: readonly Output[],
  items: ItemRules = {},
  downloads = false,
): { readonly index: number; readonly why: string } | undefined {
  for (const [index, output] of outputs.entries()) {
    const why =
      misfit(output, items) ?? misplaced(output, outputs.slice(0, index), downloads, items);
    if (why !== undefined) return { index, why };
  }
  return undefined;
}

/** The same, of the files of outputs alone, whose targets may have been resolved. */
export function misplacedOf(
  outputs: readonly Output[],
  downloads = false,
): { readonly index: number; readonly why: string } | undefined {
  for (const [index, output] of outputs.entries()) {
    const why = isFileKind(output.kind) ? ownFault(output.target) : undefined;
    const or = why ?? misplaced(output, outputs.slice(0, index), downloads);
    if (or !== undefined) return { index, why: or };
  }
  return undefined;
}

/** The first output that a crawl with `every` cannot have, since the crawls that follow it have the
 *  same: its place in the list, and why, beginning with a verb. */
export function singleOf(
  outputs: readonly Output[],
): { readonly index: number; readonly why: string } | undefined {
  for (const [index, output] of outputs.entries()) {
    if (output.kind !== 'sqlite' && isOutside(output)) {
      const why = `must not name ${output.target} with every: each crawl writes a file of its own, `;
      return { index, why: `${why}so name one in its folder` };
    }
    if (output.stream === undefined) continue;
    const why = 'must not be a stream with every: it holds the records of one crawl; use a list';
    return { index, why };
  }
  return undefined;
}

function misfit(output: Output, given: ItemRules) {
  const own = linkMisfit(output, given);
  if (own !== undefined) return own;
  const { kind, records, table, key = [], columns } = output;
  const isOfLinks = records === linkRuleName;
  const items = isOfLinks ? { [linkRuleName]: linkRule() } : ownRules(given);
  const rule = isOfLinks ? linkRuleName : output.rule;
  const rules = Object.keys(items);
  // A page function may emit rows of any name; then their columns must be said, if there are any.
  const isOfFunction = columns !== undefined || (rules.length === 0 && !columnKinds.includes(kind));
  if (rule !== undefined && !rules.includes(rule) && !isOfFunction) {
    const names =
      rules.length === 0 ? 'the crawl has no rules' : `its rules are ${rules.join(', ')}`;
    return `must not have rule ${rule}: ${names}; for rows of a page function give columns, too`;
  }
  if (!keyKinds.includes(kind)) return undefined;
  const taken = recordsOf(output, rules.length > 0);
  const isOfItems = taken === 'items' || taken === 'links';
  const only = rule ?? (rules.length === 1 ? rules[0] : undefined);
  const name = table ?? (isOfItems ? only : undefined) ?? '';
  if (name.split('.').at(-1)?.toLowerCase() === cursorTable) {
    return `must not have the table ${cursorTable}, which holds how far outputs are: give it another`;
  }
  if (!isOfItems) return misfitOfKey(key, fieldsOfRecords(taken));
  const wanted = Object.entries(items).filter(([one]) => rule === undefined || one === rule);
  const fields = new Map<string, FieldRule>();
  for (const [, of] of wanted) {
    for (const [field, how] of Object.entries(fieldsOfRule(of))) fields.set(field, how);
  }
  if (columns !== undefined) {
    const chosen = new Map(columns.map((name) => [name, fields.get(name) ?? {}]));
    return misfitOfFields(kind, chosen) ?? misfitOfKey(key, columns);
  }
  if (rules.length === 0 && key.length > 0) {
    return `must not have the key ${key.join(', ')}: the crawl has no rules; name its fields in columns`;
  }
  return misfitOfFields(kind, fields) ?? misfitOfKey(key, [...fields.keys()]);
}

function misfitOfFields(kind: OutputKind, fields: ReadonlyMap<string, FieldRule>) {
  const names = new Map<string, string>();
  for (const [field, rule] of fields) {
    const folded = field.toLowerCase();
    if (ownNames.includes(folded)) {
      return `must not have the field ${field}: each table has a column of that name; rename the field`;
    }
    if (field.length > 63) return `must not have the field ${field}: a column has 63 characters`;
    const fault = faultOfName[kind]?.(field);
    if (fault !== undefined) return `must not have the field ${field}: ${fault}; rename the field`;
    const other = names.get(folded);
    if (other !== undefined && caselessKinds.includes(kind)) {
      return `must not have the fields ${other} and ${field}: to ${kind} these are one column`;
    }
    names.set(folded, field);
    if (!looseKinds.includes(kind) && hasOddDefault(rule)) {
      return `must not have the field ${field} with that default: it is not of its type`;
    }
  }
  return undefined;
}

/** Names of columns that a database does not take. Some would hold the crawl. PostgreSQL cuts a
 *  long one, so that its values find no column. */
const faultOfName: Partial<Record<OutputKind, (name: string) => string | undefined>> = {
  postgres(name) {
    if (systemColumns.has(name)) return 'each table of PostgreSQL has a column of that name';
    const bytes = new TextEncoder().encode(name).length;
    return bytes > 63 ? `a column of PostgreSQL has 63 bytes, and this has ${bytes}` : undefined;
  },
  mysql: (name) => (/[^\0-\uffff]|\s$/u.test(name) ? 'MySQL has no such names' : undefined),
};
/** Source: PostgreSQL 15, "System Columns". */
const systemColumns = new Set(['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid']);

/** A column of its type does not hold its default. */
function hasOddDefault(rule: FieldRule): boolean {
  if (typeof rule === 'string' || rule.all || rule.default === undefined) return false;
  const { type, default: given } = rule;
  if (given === null) return false;
  if (type === 'integer') return !Number.isSafeInteger(given);
  return (type === 'number' || type === 'boolean') && typeof given !== type;
}

function misfitOfKey(key: readonly string[], fields: readonly string[]) {
  const unknown = key.find((name) => !fields.includes(name));
  if (unknown === undefined || fields.length === 0) return undefined;
  return `must not have the key ${unknown}: the fields are ${fields.join(', ')}`;
}

function misplaced(
  output: Output,
  others: readonly Output[],
  downloads: boolean,
  items: ItemRules = {},
) {
  const isTable = output.kind === 'sqlite' || !isFileKind(output.kind);
  const own = placed(output, items);
  if (isTable && others.some((other) => isSameTarget(placed(other, items), own))) {
    const place = output.kind === 'redis' ? 'list or stream' : 'table';
    return `must not name ${output.target} twice for the same records: give each another ${place}`;
  }
  if (!isFileKind(output.kind)) return undefined;
  return sharedFile(output, others) ?? taken(output, downloads);
}

/** The output with the table or list that it has by default, to compare it with others. */
function placed(output: Output, items: ItemRules): Output {
  const rules = Object.keys(ownRules(items));
  const records = recordsOf(output, rules.length > 0);
  const rule = output.rule ?? (records === 'items' && rules.length === 1 ? rules[0] : undefined);
  const where = { ...output, records, ...(rule !== undefined && { rule }) };
  if (output.stream !== undefined) return where;
  const name = tableNameOf(records, rule);
  return output.kind === 'redis' ? { list: name, ...where } : { table: name, ...where };
}

/** A crawl that downloads images has this file itself. */
function taken({ target }: Output, downloads: boolean) {
  if (!downloads || !/^images\b.*\.jsonl$/.test(target)) return undefined;
  return `must not name ${target}: what the crawl downloads is listed there; name another file`;
}

/** Is the file that of another output, or a part of it? Several tables of one SQLite file are
 *  fine. */
function sharedFile(output: Output, others: readonly Output[]) {
  const path = fileOf(output);
  for (const other of others) {
    if (!isFileKind(other.kind)) continue;
    const at = fileOf(other);
    if (at === path && (other.kind !== 'sqlite' || output.kind !== 'sqlite')) {
      return `must not name the file ${path}, which a ${other.kind} output has: name another one`;
    }
    if (isPart(path, output, other)) {
      return `must not name the file ${path}, which ${at} with rotate makes: name another one`;
    }
    if (isPart(at, other, output)) {
      return `must not have rotate: that makes the file ${at}, which a ${other.kind} output has; name another one`;
    }
  }
  return undefined;
}

/** Is the file of an output a part of one that rotates? */
function isPart(path: string, { rotate }: Output, whole: Output): boolean {
  if (rotate !== undefined || whole.rotate === undefined) return false;
  const numbers = [...path.matchAll(/-(\d{5,})/g)].map(([, number]) => Number(number));
  return numbers.some((number) => number > 0 && partOf(fileOf(whole), number) === path);
}
