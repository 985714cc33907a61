/** PROTOCOL.md, the code and this suite agree: every clause has a test, every id that is cited is
 *  there, and the examples are what they say. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { requestSchemas, type Verb } from '../../shared/requests.ts';
import { unpack } from '../support/msgpack.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const text = readFileSync(join(root, 'PROTOCOL.md'), 'utf8');
const idPattern = /\[([A-Z]-\d+)\]/g;

const clauses = [...text.matchAll(/^- \[([A-Z]-\d+)\]/gm)].map(([, id]) => id ?? '');

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(ts|py)$/.test(file))
    .map((file) => readFileSync(join(root, folder, file), 'utf8'));
}

const idsOf = (source: string) => [...source.matchAll(idPattern)].map(([, id]) => id ?? '');

test('every clause of PROTOCOL.md has an id of its own and a test', () => {
  assert.ok(clauses.length > 50);
  assert.deepEqual(
    clauses.filter((id, index) => clauses.indexOf(id) !== index),
    [],
  );
  const names = sources('test/protocol').flatMap((source) =>
    [...source.matchAll(/\btest\(\s*['`]((?:\[[A-Z]-\d+\] ?)+)/g)].map(([, name]) => name ?? ''),
  );
  const tested = new Set(names.flatMap(idsOf));
  assert.deepEqual(
    clauses.filter((id) => !tested.has(id)),
    [],
  );
});

test('every clause id that text, code and tests cite is in PROTOCOL.md', () => {
  const cited = ['shared', 'master', 'slave', 'test/protocol', 'test/support']
    .flatMap(sources)
    .concat(text)
    .flatMap(idsOf);
  assert.deepEqual([...new Set(cited)].filter((id) => !clauses.includes(id)).sort(), []);
});

/** The text of an example: `{verb: "x", proof: <1ff8…>}`, over its comment lines. */
function saidBy(lines: readonly string[]): unknown {
  const words = lines.map((line) => line.replace(/^# (?:->|<-)?\s*/, '')).join(' ');
  const json = words
    .replace(/<("(?:[^"\\]|\\.)*"|[0-9a-f]+…?)>/g, (_, bytes) => JSON.stringify({ bytes }))
    .replace(/([{,] ?)(\w+):/g, '$1"$2":');
  return JSON.parse(json);
}

/** `said` has bytes as `<"text">`, `<hex>`, or `<hex…>` for their beginning. */
function assertSaid(value: unknown, said: unknown, where: string): void {
  if (value instanceof Uint8Array) {
    const { bytes } = said as { bytes: string };
    const hex = Buffer.from(value).toString('hex');
    if (bytes.startsWith('"')) assert.equal(Buffer.from(value).toString(), JSON.parse(bytes));
    else if (bytes.endsWith('…')) assert.ok(hex.startsWith(bytes.slice(0, -1)), where);
    else assert.equal(hex, bytes, where);
  } else if (typeof value === 'object' && value !== null) {
    const [fields, words] = [Object.entries(value), Object.entries(said ?? {})];
    assert.deepEqual(
      fields.map(([name]) => name),
      words.map(([name]) => name),
      where,
    );
    for (const [i, [name, field]] of fields.entries()) assertSaid(field, words[i]?.[1], name);
  } else {
    assert.equal(value, said, where);
  }
}

test('every example is one frame of plain msgpack, as it says, and requests are right', () => {
  const blocks = [...text.matchAll(/^```hex\n([\s\S]*?)^```$/gm)].map(([, block]) => block ?? '');
  const verbs = new Set<string>();
  for (const example of blocks.flatMap((block) => block.split(/^(?=# (?:->|<-))/m))) {
    const lines = example.split('\n').filter((line) => line !== '');
    const hex = lines
      .filter((line) => !line.startsWith('#'))
      .join('')
      .replaceAll(' ', '');
    const bytes = Buffer.from(hex, 'hex');
    assert.equal(bytes.length * 2, hex.length, example);
    assert.equal(bytes.readInt32BE(0), bytes.length - 4, example);
    const message = unpack(bytes.subarray(4)) as { verb?: string; fetch?: unknown };
    const comment = lines.filter((line) => line.startsWith('#'));
    assertSaid(message, saidBy(comment), example);
    // A master fills in every field.
    if (message.verb === 'crawl.spec')
      assert.deepEqual(fetchSpecSchema.parse(message.fetch), message.fetch);
    if (!lines[0]?.startsWith('# ->')) continue;
    const verb = message.verb as Verb;
    assert.ok(requestSchemas[verb].safeParse(message).success, example);
    verbs.add(verb);
  }
  const pausedAlike = ['crawl.resume', 'crawl.cancel'];
  assert.deepEqual([...verbs, ...pausedAlike].sort(), Object.keys(requestSchemas).sort());
});
