import assert from 'node:assert/strict';
import test from 'node:test';
import { cut, fitted, type Screen, StatusBlock } from '../../master/machine/status-block.ts';

/** Remembers what is written. */
class Paper implements Screen {
  columns = 80;
  rows = 24;
  text = '';

  write(text: string): void {
    this.text = text;
  }

  /** How many rows the last text goes up. */
  get up(): number {
    return Number(
      this.text
        .split('\u001b[')
        .find((part) => /^\d+A/.test(part))
        ?.match(/\d+/) ?? 0,
    );
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are a terminal's words
const sequence = /\u001b\[[?0-9]*[A-Za-z]|\r/g;

/** The lines that a text shows, without its sequences. */
function linesOf(text: string): string[] {
  return text.replace(sequence, '').split('\n').slice(0, -1);
}

test('status block: no line is as wide as the terminal, and what does not fit is cut', () => {
  const paper = new Paper();
  const block = new StatusBlock(paper);
  for (const columns of [40, 41, 80, 1, 2]) {
    paper.columns = columns;
    block.paint(['x'.repeat(200), '漢字'.repeat(50), 'short']);
    for (const line of linesOf(paper.text)) {
      const wide = [...line].filter((char) => char > '\u3000').length;
      assert.ok([...line].length + wide < Math.max(columns, 2), `${columns}: ${line}`);
    }
  }
  assert.equal(cut('x'.repeat(40), 40), 'x'.repeat(40));
  assert.equal(cut('x'.repeat(41), 40), `${'x'.repeat(39)}…`);
});

test('status block: it goes back over the rows that its lines take after a resize', () => {
  const paper = new Paper();
  const block = new StatusBlock(paper);
  block.paint(['a'.repeat(79), 'b'.repeat(30)]);
  assert.equal(paper.up, 0);
  block.paint(['a'.repeat(79), 'b'.repeat(30)]);
  assert.equal(paper.up, 2);
  // The first line now takes two rows, the second line one.
  paper.columns = 40;
  block.paint(['a'.repeat(79), 'b'.repeat(30)]);
  assert.equal(paper.up, 3);
  paper.columns = 120;
  block.clear();
  assert.equal(paper.up, 2);
  paper.text = '';
  block.clear();
  assert.equal(paper.text, '');
});

test('status block: it never takes more rows than the terminal has', () => {
  const paper = new Paper();
  paper.rows = 5;
  const block = new StatusBlock(paper);
  block.paint(Array.from({ length: 12 }, (_, i) => `line ${i}`));
  assert.deepEqual(linesOf(paper.text), ['line 0', 'line 1', 'line 2', 'line 3']);
});

test('status block: of the parts of a line the least important go first', () => {
  const parts = [
    { text: 'name: 1 page', rank: 0 },
    { text: '10 images', rank: 3 },
    { text: '2 failed', rank: 1 },
    { text: '5 waiting', rank: 2 },
  ];
  assert.equal(fitted(parts, 80), 'name: 1 page · 10 images · 2 failed · 5 waiting');
  assert.equal(fitted(parts, 40), 'name: 1 page · 2 failed · 5 waiting');
  assert.equal(fitted(parts, 30), 'name: 1 page · 2 failed');
  assert.equal(fitted(parts, 5), 'name: 1 page');
});
