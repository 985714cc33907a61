/**
 * Outputs of a crawl beside its result files: what each is, as its spec keeps it, and as people
 * write it (`csv:books.csv`, `postgres://host/db#table=books`). A secret is never a part of it: it
 * stands as `$NAME`, and the master reads that variable of its environment when it connects.
 * Source: docs/outputs.md.
 */
import { extname } from 'node:path';
import * as z from 'zod';

const outputKinds = [
  'jsonl',
  'csv',
  'sqlite',
  'postgres',
  'mysql',
  'redis',
  'mongodb',
  'parquet',
] as const;
export type OutputKind = (typeof outputKinds)[number];

/** Which records an output takes: `pages` those of kind page, `failed` those of kind failed and
 *  blocked, `images` each image once, `links` the links of each page, `downloads`
 *  the lines of images.jsonl, `items` and `rejected` the rows of its rules, `all` every line
 *  of pages.jsonl. */
const outputRecords = [
  'pages',
  'images',
  'failed',
  'items',
  'rejected',
  'all',
  'links',
  'downloads',
] as const;
export type OutputRecords = (typeof outputRecords)[number];

const outputsMax = 16;
const fileKinds: readonly OutputKind[] = ['jsonl', 'csv', 'sqlite', 'parquet'];
const textKinds: readonly OutputKind[] = ['jsonl', 'csv'];
/** Those with keys; `table` is the collection of a MongoDB database. */
export const keyKinds: readonly OutputKind[] = ['sqlite', 'postgres', 'mysql', 'mongodb'];
/** Those whose rows have columns; others take objects as they are. */
export const columnKinds: readonly OutputKind[] = [
  ...(['csv', 'parquet', 'sqlite', 'postgres', 'mysql'] as const),
];
const schemes: Readonly<Record<string, OutputKind>> = {
  postgres: 'postgres',
  postgresql: 'postgres',
  mysql: 'mysql',
  mariadb: 'mysql',
  redis: 'redis',
  rediss: 'redis',
  mongodb: 'mongodb',
  'mongodb+srv': 'mongodb',
};
/** Name of each kind of output in messages and examples. */
const examples: Readonly<Record<OutputKind, string>> = {
  jsonl: 'jsonl:pages.jsonl',
  csv: 'csv:pages.csv',
  sqlite: 'sqlite:pages.db',
  postgres: 'postgres://user:$PGPASSWORD@host/database',
  mysql: 'mysql://user:$MYSQL_PASSWORD@host/database',
  redis: 'redis://:$REDIS_PASSWORD@host/0',
  mongodb: 'mongodb://user:$MONGO_PASSWORD@host/database',
  parquet: 'parquet:pages.parquet',
};

const identifier = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;
/** Of Redis. */
const redisKey = z
  .string({ error: 'must be a key of Redis' })
  .regex(/^[^\s\p{Cc}]{1,256}$/u, { error: 'must be a key of Redis without spaces' });
const column = z
  .string({ error: 'must be the names of fields' })
  .regex(/^[^\p{Cc}"`]{1,63}$/u, { error: 'is not the name of a field' });

const conflicts = ['insert', 'skip', 'update'] as const;
const oneOf = (values: readonly string[]) => ({ error: `must be one of: ${values.join(', ')}` });

const plainSchema = z.strictObject({
  kind: z.enum(outputKinds),
  /** A file, or the URL of a database; `$NAME` in it is a variable of the master. */
  target: z
    .string({ error: 'must name a file, or the URL of a database' })
    .min(1, { error: 'must name a file, or the URL of a database' })
    .max(2048, { error: 'must have at most 2048 characters' }),
  /** Of its cursor, and in messages; absent only before the crawl has it. */
  name: z
    .string({ error: 'must be text' })
    .regex(/^[a-z][a-z0-9-]{0,31}$/, {
      error: 'must be a name of lower-case letters, digits and dashes',
    })
    .refine((name) => name !== 'files', { error: 'must not be files: the result files have it' })
    .optional(),
  /** Absent only before the crawl has it. */
  records: z.enum(outputRecords, oneOf(outputRecords)).optional(),
  /** Of items: those of this rule alone. */
  rule: z
    .string({ error: 'must be the name of a rule' })
    .max(64, { error: 'must be the name of a rule' })
    .regex(/^[A-Za-z_][\w-]*$/, { error: 'must be the name of a rule' })
    .optional(),
  /** One character. */
  delimiter: z
    .string({ error: 'must be one character, such as ; or tab' })
    .regex(/^[^"\r\n]$/u, { error: 'must be one character, such as ; or tab' })
    .optional(),
  /** `escape`: a text that a spreadsheet would calculate gets a ' in front. */
  formulas: z.enum(['keep', 'escape'], oneOf(['keep', 'escape'])).optional(),
  /** Bytes after which a file is closed and the next one begun. */
  rotate: z
    .int({ error: 'must be a size such as 100MB' })
    .min(1024, { error: 'must be at least 1024 bytes' })
    .optional(),
  compress: z.enum(['gzip'], oneOf(['gzip'])).optional(),
  table: z
    .string({ error: 'must be the name of a table' })
    .refine((name) => name.split('.').length <= 2 && name.split('.').every(isIdentifier), {
      error: 'must be the name of a table: letters, digits and underscores',
    })
    .optional(),
  /** A list of Redis, or a stream: one of them. */
  list: redisKey.optional(),
  stream: redisKey.optional(),
  /** Fields that name a row. */
  key: z
    .array(column, { error: 'must be the names of fields' })
    .min(1, { error: 'must have a field' })
    .max(8, { error: 'must have at most 8 fields' })
    .optional(),
  /** Of items: the fields that are columns, in their order. `item` is JSON of all others. */
  columns: z
    .array(column, { error: 'must be the names of fields' })
    .min(1, { error: 'must have a field' })
    .max(400, { error: 'must have at most 400 fields' })
    .refine((names) => new Set(names).size === names.length, { error: 'must have each field once' })
    .optional(),
  /** The treatment of a second row with the same key. */
  onConflict: z.enum(conflicts, oneOf(conflicts)).optional(),
});
export type Output = z.infer<typeof plainSchema>;
/** An output of a crawl. */
export type NamedOutput = Output & { readonly name: string };

const outputSchema = plainSchema.superRefine((output, context) => {
  const fault = faultOf(output);
  if (fault !== undefined) context.addIssue({ code: 'custom', message: fault });
});

export const outputsSchema = z
  .array(outputSchema)
  .max(outputsMax)
  .superRefine((outputs, context) => {
    const names = outputs.flatMap(({ name }) => name ?? []);
    if (new Set(names).size < names.length) {
      context.addIssue({ code: 'custom', message: 'must have names that differ' });
    }
    const files = outputs.filter(({ kind }) => kind !== 'sqlite' && isFileKind(kind));
    if (new Set(files.map(({ target }) => target)).size < files.length) {
      context.addIssue({ code: 'custom', message: 'must not name the same file twice' });
    }
  });

function isIdentifier(name: string): boolean {
  return identifier.test(name);
}

export function isFileKind(kind: OutputKind): boolean {
  return fileKinds.includes(kind);
}

/** Does the file of this output lie outside the folder of its crawl? */
export function isOutside({ kind, target }: Output): boolean {
  return isFileKind(kind) && target.startsWith('/');
}

/** The fault of an output, beginning with a verb. */
function faultOf(output: Output): string | undefined {
  const { kind, target, key, onConflict } = output;
  const only = (field: keyof Output, kinds: readonly OutputKind[]) =>
    output[field] !== undefined && !kinds.includes(kind)
      ? `must not have ${field === 'onConflict' ? 'on-conflict' : field}: a ${kind} output has none`
      : undefined;
  const misplaced =
    only('delimiter', ['csv']) ??
    only('formulas', ['csv']) ??
    only('rotate', textKinds) ??
    only('compress', textKinds) ??
    only('table', keyKinds) ??
    only('key', keyKinds) ??
    only('onConflict', keyKinds) ??
    only('columns', columnKinds) ??
    only('list', ['redis']) ??
    only('stream', ['redis']);
  if (misplaced !== undefined) return misplaced;
  if (output.rule !== undefined && !['items', undefined].includes(output.records)) {
    return 'must not have rule: its records are not items';
  }
  if (output.columns !== undefined && !['items', undefined].includes(output.records)) {
    return 'must not have columns: its records are not items';
  }
  if (onConflict !== undefined && key === undefined) {
    return 'must have key, the fields that name a row, if it has on-conflict';
  }
  if (output.list !== undefined && output.stream !== undefined) {
    return 'must have list or stream, and not both';
  }
  return isFileKind(kind) ? faultOfFile(target) : faultOfUrl(kind, target);
}

const ownFiles = /^(?:pages|skipped|rejected|items|links|changes)\b.*\.jsonl$|^img_src\b.*\.txt$/;

const ownFolders = /^(?:archive|html|images)(?:\/|$)/;

function faultOfFile(target: string): string | undefined {
  const parts = target.replace(/^\//, '').split('/');
  const isPath = parts.every((part) => part !== '' && part !== '.' && part !== '..');
  if (!isPath || /\p{Cc}/u.test(target)) {
    return 'must name a file in the folder of the crawl, such as books.csv';
  }
  // A shell writes the home folder at the beginning of a word alone.
  if (target.startsWith('~')) return 'must not begin with ~: write the whole path, such as $HOME';
  return ownFault(target);
}

/** The fault of a path in the folder of a crawl that the crawl writes itself. */
export function ownFault(path: string): string | undefined {
  if (ownFolders.test(path)) {
    return 'must not lie in a folder that a crawl has itself: archive, html or images';
  }
  if (!ownFiles.test(path)) return undefined;
  return 'must not name one of the result files that each crawl has: name another file';
}

/** The file of a file output; with `rotate` the one that its parts are named after. */
export function fileOf({ target, compress }: Output): string {
  return compress === undefined || target.endsWith('.gz') ? target : `${target}.gz`;
}

/** The file of one part of an output with `rotate`: `books-00001.csv` of `books.csv`. */
export function partOf(file: string, part: number): string {
  const zip = extname(file) === '.gz' ? '.gz' : '';
  const stem = file.slice(0, file.length - zip.length);
  const end = extname(stem);
  const number = String(part).padStart(5, '0');
  return `${stem.slice(0, stem.length - end.length)}-${number}${end}${zip}`;
}

function faultOfUrl(kind: OutputKind, target: string): string | undefined {
  const example = examples[kind];
  for (const [, name = ''] of target.matchAll(variable)) {
    if (/^ORB_/.test(name)) return 'must not name a variable of the master itself (ORB_…)';
  }
  if (/^\$\w+$/.test(target)) return undefined;
  const known = Object.entries(schemes).flatMap(([scheme, of]) => (of === kind ? [scheme] : []));
  const [, scheme = ''] = /^([a-z+]+):\/\//.exec(target) ?? [];
  if (!known.includes(scheme)) return `must be a URL like ${example}, or a variable like $DB_URL`;
  if (!URL.canParse(target.replace(variable, 'x'))) return `must be a URL like ${example}`;
  const { password } = new URL(target.replace(variable, 'x'));
  const [, given = ''] = /^[a-z+]+:\/\/[^/?#@]*?:([^/?#]*)@/.exec(target) ?? [];
  if (password !== '' && !/^\$\w+$/.test(given)) {
    return `must not hold a password, which would be stored: write the name of a variable of the master in its place, in single quotes ('${example}')`;
  }
  return undefined;
}

/** A variable of the master in a target. */
export const variable = /\$([A-Za-z_]\w*)/g;

/**
 * Reads an output as people write it: `KIND:FILE`, a URL, or `KIND:$NAME`; behind `#` its options,
 * `name=value` and joined by `&`. @throws Error what is wrong, beginning with a verb or a subject
 */
export function outputOf(text: string): Output {
  const hash = text.indexOf('#');
  const place = hash < 0 ? text : text.slice(0, hash);
  const given: Record<string, unknown> = {};
  for (const part of hash < 0 ? [] : text.slice(hash + 1).split('&')) {
    const equals = part.indexOf('=');
    if (equals < 1) throw new Error(`must have its options as name=value behind #: ${part}`);
    given[part.slice(0, equals)] = decoded(part.slice(equals + 1));
  }
  const [, scheme = ''] = /^([a-z+]+):/.exec(place) ?? [];
  const ofUrl = place.startsWith(`${scheme}://`) ? schemes[scheme] : undefined;
  const kind = outputKinds.find((one) => one === scheme);
  if (ofUrl !== undefined) return outputFrom({ ...given, [ofUrl]: place });
  if (kind === undefined) {
    throw new Error(
      `must begin with one of ${outputKinds.join(', ')}: ${Object.values(examples).join(' ')}`,
    );
  }
  return outputFrom({ ...given, [kind]: place.slice(kind.length + 1) });
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Makes an output of an entry of a crawl file: `{csv: books.csv, delimiter: ";"}`.
 *  @throws Error what is wrong, beginning with a verb or a subject */
export function outputFrom(entry: unknown): Output {
  if (typeof entry === 'string') return outputOf(entry);
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
    throw new Error(`must be text like ${examples.csv}, or keys like {csv: pages.csv}`);
  }
  const { 'on-conflict': onConflict, delimiter, key, columns, rotate, ...rest } = entry as Values;
  const kinds = outputKinds.filter((one) => one in rest);
  const [kind] = kinds;
  if (kind === undefined || kinds.length > 1) {
    throw new Error(`must have one of the keys ${outputKinds.join(', ')}`);
  }
  const { [kind]: target, ...options } = rest;
  // Readers go by the name: what it says is what it is.
  const isZipped = kind === 'csv' || kind === 'jsonl';
  const isNamedSo = isZipped && typeof target === 'string' && target.endsWith('.gz');
  const value = {
    ...(isNamedSo && { compress: 'gzip' }),
    ...options,
    kind,
    target: isFileKind(kind) && typeof target === 'string' ? target.replace(/^\.\//, '') : target,
    ...(delimiter !== undefined && { delimiter: delimiter === 'tab' ? '\t' : delimiter }),
    ...(key !== undefined && { key: listOf(key) }),
    ...(columns !== undefined && { columns: listOf(columns) }),
    ...(onConflict !== undefined && { onConflict }),
    ...(rotate !== undefined && { rotate: bytesOf(rotate) }),
  };
  const parsed = outputSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue?.code === 'unrecognized_keys') {
    const known =
      'name records rule delimiter formulas rotate compress table key columns on-conflict list stream';
    throw new Error(`must not have ${issue.keys.join(', ')}; its options are ${known}`);
  }
  const [field] = issue?.path ?? [];
  const name = field === 'onConflict' ? 'on-conflict' : String(field);
  const where = field === undefined || field === 'target' ? '' : `has a ${name} that `;
  throw new Error(`${where}${issue?.message ?? 'is not valid'}`);
}

type Values = Record<string, unknown>;

function listOf(names: unknown): unknown {
  return typeof names === 'string' ? names.split(',') : names;
}

/** `100MB`, `1GB`, or a number of bytes. */
function bytesOf(value: unknown): unknown {
  const [, count, unit = ''] = /^(\d{1,12})\s*(kb|mb|gb|)$/i.exec(String(value)) ?? [];
  const factor = { '': 1, kb: 1e3, mb: 1e6, gb: 1e9 }[unit.toLowerCase()] ?? 1;
  return count === undefined ? value : Number(count) * factor;
}

/** Do both write the same records to the same place? */
export function isSameTarget(a: Output, b: Output): boolean {
  const of = ({ kind, target, table, list, stream, records, rule }: Output) =>
    JSON.stringify([kind, target, table, list, stream, records, rule]);
  return of(a) === of(b);
}

/** The records of an output. `hasItems`: the crawl has rules. */
export function recordsOf(
  { records, rule, columns }: Output,
  hasItems: boolean,
): NonNullable<Output['records']> {
  const isOfItems = hasItems || rule !== undefined || columns !== undefined;
  return records ?? (isOfItems ? 'items' : 'pages');
}

/** The table or list of such records by default. `rule`: of items, if they are those of one rule. */
export function tableNameOf(records: string, rule: string | undefined): string {
  return records === 'items' ? (rule ?? records).replaceAll('-', '_') : records;
}

/** Gives each output its records, items where the crawl has rules, and its name: its own, that of
 *  the same output before, or the next free one of its kind (`csv`, `csv-2`). */
export function namedOutputs(
  given: readonly Output[],
  before: readonly Output[] = [],
  hasItems = false,
): NamedOutput[] {
  const outputs = given.map((output) => ({ ...output, records: recordsOf(output, hasItems) }));
  const taken = new Set(outputs.flatMap(({ name }) => name ?? []));
  const kept = outputs.map((output) => {
    const name = output.name ?? before.find((one) => isSameTarget(one, output))?.name;
    if (name === undefined || (output.name === undefined && taken.has(name))) return undefined;
    taken.add(name);
    return name;
  });
  for (const { name } of before) if (name !== undefined) taken.add(name);
  return outputs.map((output, i) => {
    let name: string | undefined = kept[i];
    for (let n = 1; name === undefined; n++) {
      const next = n === 1 ? output.kind : `${output.kind}-${n}`;
      if (taken.has(next)) continue;
      taken.add(next);
      name = next;
    }
    const old = before.find((one) => one.name === name);
    return asBegun({ ...output, name }, old);
  });
}

/** A file that an earlier version has begun keeps its form: its name did not say that it is
 *  compressed. */
export function asBegun(output: NamedOutput, old: Output | undefined): NamedOutput {
  if (old === undefined || old.compress !== undefined || !isSameTarget(old, output)) return output;
  const { compress, ...plain } = output;
  return compress !== undefined && output.target.endsWith('.gz') ? plain : output;
}

/** `csv-2 (csv:books.csv)`; it has no secrets. */
export function outputText({ name = '', kind, target }: Output): string {
  return `${name} (${target.includes('://') ? target : `${kind}:${target}`})`;
}

/** A sink of a crawl, as an operator sees it. */
export type SinkStatus = {
  name: string;
  target: string;
  state: 'writing' | 'failing' | 'held';
  /** Why it is not writing. */
  reason?: string;
  /** For how long it could not, if it is failing. */
  ms?: number;
  /** Records that wait for it. */
  records: number;
  bytes: number;
  /** It can be given up. */
  output: boolean;
};
