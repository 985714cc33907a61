/** The answers of an archive that is read while it is written, or that a crash has cut. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { Body } from '../../master/archive/body.ts';
import { type About, Digests, RecordMaker } from '../../master/archive/records.ts';
import { recordEnd, recordHead } from '../../master/archive/warc.ts';
import { ArchivedAnswers, type Place } from '../../master/extract/archived-answers.ts';
import type { BodyEnd } from '../../shared/archive.ts';

const name = '000001.warc.gz';
const origin = 'http://site';
/** All bodies stay in memory. */
const room = {
  enter: () => true,
  leave: () => {},
  newFile: () => '',
  append: () => Promise.resolve(),
};

/** Answers that count as pages only by what their metadata say. */
async function ours(): Promise<Buffer[]> {
  const crawl = { id: 1, uid: Buffer.alloc(16) };
  const maker = new RecordMaker(crawl, new Digests(), 0);
  const members = [maker.info(name, 'c', 0)];
  const answer = async (path: string, about: Partial<About> = {}, end: BodyEnd = 'whole') => {
    const bytes = Buffer.from(`<title>${path}</title>`);
    const body = new Body(room);
    await body.add(bytes);
    const request = Buffer.from('GET / HTTP/1.1\r\n\r\n');
    const response = Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n');
    const exchange = { url: origin + path, at: 0, request, response, end, body };
    const said = { task: origin + path, isAnswered: true, depth: 3, from: undefined, kind: 'page' };
    const made = maker.of(exchange, [bytes], { ...said, isPage: true, ...about }, true);
    for (const member of made) members.push((await member).bytes);
  };
  await answer('/robots.txt', { kind: 'robots', isPage: false });
  await answer('/flaky', { isAnswered: false }, 'disconnect');
  await answer('/target', { task: `${origin}/moved` });
  await answer('/flaky');
  return members;
}

/** `eol`: ends the lines of heads, as its host had it. */
function theirs(eol = '\r\n'): Buffer[] {
  const record = (type: 'warcinfo' | 'response', fields: [string, string][], text: string) => {
    const block = Buffer.from(text);
    const head = recordHead(
      type,
      `<urn:${text.length}>`,
      '2026-01-01T00:00:00Z',
      fields,
      block.length,
    );
    return gzipSync(Buffer.concat([head, block, recordEnd]));
  };
  const page = (path: string) =>
    record(
      'response',
      [['WARC-Target-URI', origin + path]],
      ['HTTP/1.1 200 OK', 'content-type: text/html', '', `${path}\n\n\r\n\r\n`].join(eol),
    );
  return [record('warcinfo', [], 'software: Wget\r\n'), page('/a'), page('/b'), page('/c')];
}

function archive(t: TestContext): { folder: string; path: string } {
  const folder = mkdtempSync(join(tmpdir(), 'archived-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return { folder, path: join(folder, name) };
}

/** The answers from a place on, and where to go on. */
async function read(folder: string, from?: Place) {
  const answers = await ArchivedAnswers.open(folder);
  let place = from;
  const found: unknown[] = [];
  for await (const { answer, next } of answers.from(from)) {
    const { url, task, depth, end } = typeof answer === 'string' ? {} : answer;
    found.push(typeof answer === 'string' ? answer : [url, task, depth, end]);
    place = next;
  }
  return { found, place, cutAt: answers.cutAt };
}

test('archived answers: wherever the archive ends meanwhile, they are the same', async (t) => {
  const { folder, path } = archive(t);
  const members = await ours();
  const whole = Buffer.concat(members);
  writeFileSync(path, whole);
  const all = await read(folder);
  assert.deepEqual(all.found, [
    'other',
    'failed',
    [`${origin}/target`, `${origin}/moved`, 3, 'whole'],
    [`${origin}/flaky`, `${origin}/flaky`, 3, 'whole'],
  ]);
  assert.equal(all.cutAt, undefined);
  let end = 0;
  for (const member of members) {
    end += member.length;
    for (const cut of [end, end + 20]) {
      writeFileSync(path, whole.subarray(0, cut));
      const first = await read(folder);
      appendFileSync(path, whole.subarray(cut));
      const { found } = await read(folder, first.place);
      assert.deepEqual([...first.found, ...found], all.found, `cut at ${cut}`);
    }
  }
});

test('archived answers: of another program each whole answer counts', async (t) => {
  const { folder, path } = archive(t);
  const whole = Buffer.concat(theirs());
  for (const [bytes, count] of [
    [whole.length, 3],
    [whole.length - 9, 2],
  ] as const) {
    writeFileSync(path, whole.subarray(0, bytes));
    assert.equal((await read(folder)).found.length, count);
  }
});

test('archived answers: the lines of a head may end with line feeds alone', async (t) => {
  for (const eol of ['\r\n', '\n']) {
    const { folder, path } = archive(t);
    writeFileSync(path, Buffer.concat(theirs(eol)));
    const found = [];
    for await (const { answer } of (await ArchivedAnswers.open(folder)).from(undefined)) {
      if (typeof answer !== 'string') found.push([answer.head, String(answer.body)]);
    }
    const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/html';
    const bodies = ['/a', '/b', '/c'].map((page) => `${page}\n\n\r\n\r\n`);
    assert.deepEqual(
      found,
      bodies.map((body) => [head, body]),
    );
  }
});
