import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import {
  answerRecord,
  type Finding,
  failureRecord,
  isPage,
} from '../../master/frontier/commit/result-records.ts';
import { valuesOf } from '../../master/sinks/result-lines.ts';
import { ResultRow } from '../../master/store/result-rows.ts';
import type { Result } from '../../shared/requests.ts';
import { visibleJson } from '../../shared/visible.ts';
import { lineOfFinding } from '../support/finding-lines.ts';

const task = { kind: 'page', url: 'http://a/', depth: 2, attempts: 1, seq: 7 } as const;
const page: Result = {
  finalUrl: 'http://a/',
  status: 200,
  type: 'text/html',
  charset: 'utf-8',
  bytes: 1234,
  ms: 12.6,
  title: 'A "title"\nof two lines',
};
const image = { src: 'http://a/i.png', via: 'img', alt: 'x' } as const;
const rest = { task, images: [image], links: 3, moved: false, slave: 's', at: 0 };

/** As the file sink writes it. */
function parse(finding: Finding): unknown {
  const line = lineOfFinding(finding);
  assert.ok(line.endsWith('\n') && line.indexOf('\n') === line.length - 1, 'one line');
  return JSON.parse(line);
}

test('lines: a page has what was found on it', () => {
  assert.deepEqual(parse(answerRecord({ ...rest, result: page })), {
    url: 'http://a/',
    finalUrl: 'http://a/',
    status: 200,
    type: 'text/html',
    charset: 'utf-8',
    depth: 2,
    bytes: 1234,
    ms: 13,
    title: 'A "title"\nof two lines',
    images: [image],
    links: 3,
    slave: 's',
    at: '1970-01-01T00:00:00.000Z',
  });
});

test('lines: what was cut is said', () => {
  const line = answerRecord({ ...rest, result: { ...page, cut: true, linksCut: 7, imagesCut: 8 } });
  const { cut, linksCut, imagesCut } = parse(line) as Record<string, unknown>;
  assert.deepEqual([cut, linksCut, imagesCut], [true, 7, 8]);
});

test('lines: a page says what it asks of crawlers, and where else it sends them', () => {
  const said = {
    directives: ['noindex'] as const,
    nofollowed: 3,
    refresh: 'http://a/next',
    canonical: 'http://a/c',
  };
  const result = { ...page, ...said, directives: [...said.directives] };
  const line = answerRecord({ ...rest, result });
  const { directives, nofollowed, refresh, canonical } = parse(line) as Record<string, unknown>;
  assert.deepEqual({ directives, nofollowed, refresh, canonical }, said);
});

test('lines: what is left out after all has the fields of an answer, and why', () => {
  const said = { nofollowed: 2, refresh: 'http://a/next', canonical: 'http://a/c' };
  const result: Result = { ...page, directives: ['noindex'], ...said };
  for (const excluded of ['noindex', 'canonical'] as const)
    assert.deepEqual(parse(answerRecord({ ...rest, result, excluded })), {
      url: 'http://a/',
      finalUrl: 'http://a/',
      status: 200,
      type: 'text/html',
      depth: 2,
      bytes: 1234,
      ms: 13,
      directives: ['noindex'],
      ...said,
      excluded,
      slave: 's',
      at: '1970-01-01T00:00:00.000Z',
    });
});

test('lines: a redirect to a known page, or out of the group, is no page', () => {
  const moved = { ...rest, moved: true, result: { ...page, finalUrl: 'http://a/b' } };
  const left = { ...page, status: 301, redirectedTo: 'http://b/' };
  for (const [line, to] of [
    [answerRecord(moved), 'http://a/b'],
    [answerRecord({ ...rest, result: left }), 'http://b/'],
  ] as const) {
    const fields = parse(line) as Record<string, unknown>;
    assert.equal(fields['redirectedTo'], to);
    assert.equal('images' in fields || 'title' in fields || 'links' in fields, false);
  }
});

test('lines: an error stands instead of the page, with the attempts it took', () => {
  const error = { kind: 'status', message: '404 Not Found' } as const;
  const line = answerRecord({ ...rest, result: { ...page, status: 404, error } });
  const fields = parse(line) as Record<string, unknown>;
  assert.deepEqual(fields['error'], { ...error, attempts: 2 });
  assert.equal('images' in fields, false);
});

test('lines: another type of document has no page fields', () => {
  const line = answerRecord({ ...rest, result: { ...page, type: 'application/pdf' } });
  const fields = parse(line) as Record<string, unknown>;
  assert.equal(fields['type'], 'application/pdf');
  assert.equal('images' in fields || 'title' in fields, false);
});

test('lines: a URL that was given up', () => {
  const error = { kind: 'timeout', message: 'no answer' } as const;
  const line = failureRecord({ task, error, attempts: 4, slave: 's', at: 0 });
  assert.deepEqual(parse(line), {
    url: 'http://a/',
    depth: 2,
    error: { ...error, attempts: 4 },
    slave: 's',
    at: '1970-01-01T00:00:00.000Z',
  });
});

test('lines: a page is a successful answer of HTML', () => {
  assert.ok(isPage(page));
  assert.ok(isPage({ ...page, type: 'application/xhtml+xml' }));
  for (const status of [201, 202, 203, 206, 304]) assert.ok(isPage({ ...page, status }));
  const others: Partial<Result>[] = [
    { status: 199 },
    { status: 204 },
    { status: 205 },
    { status: 300 },
    { status: 404 },
    { type: 'text/plain' },
    { redirectedTo: 'http://b/' },
    { error: { kind: 'status', message: '' } },
  ];
  for (const other of others) assert.ok(!isPage({ ...page, ...other }), JSON.stringify(other));
  const { type: _, ...untyped } = page;
  assert.ok(!isPage(untyped));
});

test('lines: what was refused before it was asked has no status', () => {
  const error = { kind: 'blocked', message: 'no' } as const;
  const line = answerRecord({ ...rest, result: { ...page, status: 0, error } });
  assert.deepEqual(Object.keys(parse(line) as object), [
    'url',
    'finalUrl',
    'depth',
    'ms',
    'error',
    'slave',
    'at',
  ]);
});

test('lines: every line is what JSON makes of its values', () => {
  const text = fc.string({
    unit: fc.oneof(fc.constantFrom('a', '"', '\\', '\u202e', '\n', 'é')),
  });
  const result = fc.record({
    finalUrl: text,
    status: fc.constant(200),
    type: fc.constant('text/html'),
    bytes: fc.nat(),
    ms: fc.double({ min: 0, max: 1e9, noNaN: true }),
    title: text,
    cut: fc.constant(true),
  });
  fc.assert(
    fc.property(
      result,
      text,
      fc.double({ min: 0, max: 2 ** 41, noNaN: true }),
      (found, alt, at) => {
        const finding = answerRecord({ ...rest, result: found, images: [{ ...image, alt }], at });
        const row = new ResultRow();
        row.add(finding.kind, finding.record, finding.reported);
        const [section] = row.seal(1).sections;
        assert.ok(section !== undefined);
        const values = { ...valuesOf(section), at: new Date(at).toISOString() };
        assert.equal(lineOfFinding(finding), `${visibleJson(JSON.stringify(values))}\n`);
      },
    ),
  );
});
