/** Text from peers and pages is never shown raw. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { answerRecord } from '../../master/frontier/commit/result-records.ts';
import { makeLog } from '../../shared/log.ts';
import { peerNameSchema } from '../../shared/protocol.ts';
import { visible, visibleJson, visibleLines } from '../../shared/visible.ts';
import { lineOfFinding } from '../support/finding-lines.ts';

/** C0 and C1 controls, line separators, what turns the direction of text or hides. */
const raw =
  '\x1b]0;x\x07 \x7f \x85 \x9b2J \u2028 \u2029 \u202e \u2066 \u200b \ufeff \u061c \u{e0041}';
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

test('visible: text comes as one line without controls, plain text as it is', () => {
  assert.equal(visible('\x1b[2J\x07\n\u202e'), String.raw`\u001b[2J\u0007\u000a\u202e`);
  assert.equal(visible('\u{e0041}\ud800'), String.raw`\udb40\udc41\ud800`);
  assert.equal(visible('Zażółć 日本語 😀 a\u0301'), 'Zażółć 日本語 😀 a\u0301');
  assert.equal(visibleLines('a\tb\nc\r\x1b'), `a\tb\nc${String.raw`\u000d\u001b`}`);
  assert.ok(!unseen.test(visible(raw)));
});

test('visible: JSON means the same', () => {
  const text = fc.string({ unit: 'binary', maxLength: 60 });
  fc.assert(
    fc.property(fc.dictionary(text, fc.oneof(text, fc.constant(raw))), (value) => {
      const json = visibleJson(JSON.stringify(value));
      assert.ok(!unseen.test(json));
      assert.deepEqual({ ...(JSON.parse(json) as object) }, { ...value });
    }),
  );
});

test('visible: a line of pages.jsonl has no raw controls, whatever a slave says', () => {
  const finding = answerRecord({
    task: { url: 'http://a.example/', depth: 0, attempts: 0, seq: 1 },
    result: {
      finalUrl: `http://a.example/${raw}`,
      status: 200,
      type: 'text/html',
      bytes: 1,
      ms: 1,
      title: raw,
    },
    images: [{ src: 'http://a.example/a.png', via: 'img', alt: raw }],
    links: 0,
    moved: false,
    slave: 'a',
    at: 0,
  });
  const line = lineOfFinding(finding);
  assert.ok(!unseen.test(line.slice(0, -1)));
  assert.equal(line.at(-1), '\n');
  const read = JSON.parse(line) as { title: string; images: { alt: string }[] };
  assert.equal(read.title, raw);
  assert.equal(read.images[0]?.alt, raw);
});

test('visible: logs show nothing raw, for people and as JSON', () => {
  for (const json of [false, true]) {
    let text = '';
    const log = makeLog({ level: 'info', json, write: (line) => (text += line) });
    log.warn({ peer: raw, deep: { name: raw } }, `it said ${raw}\nforged`);
    assert.ok(!unseen.test(text.slice(0, -1)), text);
    assert.equal(text.at(-1), '\n');
  }
});

test('visible: a name of a peer is one line', () => {
  for (const name of ['a\u2028b', 'a\u2029b', 'a\u202eb', 'a\x85b', 'a\x1bb']) {
    assert.ok(!peerNameSchema.safeParse(name).success);
  }
  assert.ok(peerNameSchema.safeParse('Maschine-ü 1').success);
});
