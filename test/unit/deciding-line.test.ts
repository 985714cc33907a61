/** Which line of a robots.txt decides: by its number, whatever ends lines and whoever is named. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { decidingLine } from '../../master/frontier/robots/deciding-line.ts';
import { parseRobots } from '../../master/frontier/robots/parser.ts';

const decide = (lines: readonly string[], path: string, end = '\n') =>
  decidingLine(Buffer.from(lines.join(end)), 'Orbweaver', path);

test('robots line: the longest rule, in our group, by its number', () => {
  const lines = [
    ...['# head', 'User-agent: *', 'Disallow: /', '', 'User-agent: other', 'User-agent: ORBWEAVER'],
    ...[
      'Disallow: /a',
      'Allow: /a/b',
      'Disallow: /*.gif$',
      'Disallow: /q?x=1',
      'Disallow: /%7Euser',
    ],
  ];
  for (const end of ['\n', '\r\n', '\r']) {
    const of = (path: string) => {
      const { allows, line, text } = decide(lines, path, end);
      return [allows, line, text];
    };
    assert.deepEqual(of('/a/x'), [false, 7, 'Disallow: /a']);
    assert.deepEqual(of('/a/b/c'), [true, 8, 'Allow: /a/b']);
    assert.deepEqual(of('/x/y.gif'), [false, 9, 'Disallow: /*.gif$']);
    assert.deepEqual(of('/q?x=1&y'), [false, 10, 'Disallow: /q?x=1']);
    assert.deepEqual(of('/~user/'), [false, 11, 'Disallow: /%7Euser']);
    assert.deepEqual(of('/z'), [true, undefined, undefined]);
    assert.deepEqual(of('/robots.txt'), [true, undefined, undefined]);
  }
  const all = ['User-agent: *', 'Disallow: /x', 'User-agent: other', 'Disallow: /x/y'];
  assert.deepEqual(decide(all, '/x/y'), { allows: false, line: 2, text: 'Disallow: /x' });
});

test('robots line: a file in UTF-16 has the same lines', () => {
  const file = Buffer.from('\uFEFFUser-agent: *\r\nDisallow: /ä\r\n', 'utf16le');
  const expected = { allows: false, line: 2, text: 'Disallow: /ä' };
  assert.deepEqual(decidingLine(file, 'Orbweaver', '/%C3%A4'), expected);
});

test('robots line: the line that is named is a rule that gives the verdict by itself', () => {
  const part = fc.constantFrom('/a', '/b', '/*', '$', '?q=', '/%61', '.gif', '/a/b', '*b');
  const path = fc.array(part, { maxLength: 4 }).map((parts) => `/${parts.join('')}`);
  const rule = fc.tuple(fc.constantFrom('Allow', 'Disallow'), path).map((two) => two.join(': '));
  const agent = fc.constantFrom('User-agent: *', 'User-agent: orbweaver', 'User-agent: other', '');
  const file = fc.array(fc.oneof(rule, agent), { maxLength: 12 });
  fc.assert(
    fc.property(file, path, (lines, asked) => {
      const { allows, line, text } = decide(lines, asked);
      assert.equal(allows, parseRobots(Buffer.from(lines.join('\n')), 'Orbweaver').allows(asked));
      if (line === undefined) {
        assert.ok(allows);
        return;
      }
      assert.equal(text, lines[line - 1]?.trim());
      // Alone it says the same: an allowing one beside a rule against everything.
      const alone = ['User-agent: *', ...(allows ? ['Disallow: /', `${text}`] : [`${text}`])];
      const robots = parseRobots(Buffer.from(alone.join('\n')), 'Orbweaver');
      assert.equal(robots.allows(asked), allows, `${lines.join('|')} on ${asked}`);
    }),
    { numRuns: 2_000 },
  );
});
