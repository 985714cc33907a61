/**
 * The documents, as far as a program can check them: their links have targets, the options that
 * they name exist, and phrases that confuse readers stay out, also of help texts.
 * e2e/documents runs their commands.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { root } from '../support/cluster.ts';
import { documentFiles, proseOf, readDocument } from '../support/documents.ts';

const readmeLinesMax = 250;
const refused = /parted by|kept to|is none|without doubles|what pages ask|whoever/gi;
/** Options of other programs. */
const foreignOptions = new Set(['--scale', '--build', '--port', '--silent', '--system', '--now']);

const others = ['ARCHITECTURE.md', 'PROTOCOL.md', 'CHANGELOG.md'];
const files = [...documentFiles, ...others];

/** The output of a program for `--help`, all of its subcommands included. */
function helpOf(program: string): string {
  const help = (...args: string[]) =>
    execFileSync(process.execPath, [join(root, program), ...args, '--help'], { encoding: 'utf8' });
  const all = help();
  const commands = all.split('\nCommands:\n')[1] ?? '';
  const names = [...commands.matchAll(/^ {2}([a-z]+) /gm)].map(([, name = '']) => name);
  return [all, ...names.filter((name) => name !== 'help').map((name) => help(name))].join('\n');
}

const help = `${helpOf('master.js')}\n${helpOf('slave.js')}`;

test('words: refused phrases stay out of documents and help texts', () => {
  const texts = files.map((file) => [file, readDocument(file)] as const);
  for (const [name, text] of [...texts, ['--help', help] as const]) {
    const found = text.replace(/\s+/g, ' ').match(refused) ?? [];
    assert.deepEqual(found, [], name);
  }
});

test('words: no sentence of the documents begins with a clause such as "what was read"', () => {
  for (const file of [...documentFiles, 'ARCHITECTURE.md', 'PROTOCOL.md']) {
    const text = proseOf(file).replace(/\s+/g, ' ');
    const found = text.match(/(?<=[.:;|] )(?:What|Who|Whoever|Whatever) [a-z][^.?#|]*[.:](?= )/g);
    assert.deepEqual(found ?? [], [], file);
  }
});

test('words: the documents name only options that are there', () => {
  const known = new Set(help.match(/--[a-z][a-z0-9-]*/g));
  for (const file of documentFiles) {
    const named = readDocument(file).match(/(?<![\w-])--[a-z][a-z0-9-]*/g) ?? [];
    const unknown = named.filter((name) => !known.has(name) && !foreignOptions.has(name));
    assert.deepEqual(unknown, [], file);
  }
});

test('words: the documents name only commands that are there', () => {
  const known = new Set(
    [...help.matchAll(/^Usage: node master\.js ([a-z]+) /gm)].map(([, n]) => n),
  );
  for (const file of documentFiles) {
    const named = readDocument(file).matchAll(/(?<=node master\.js )[a-z]+(?![a-z]*:)/g);
    const unknown = [...named].map(([name]) => name).filter((name) => !known.has(name));
    assert.deepEqual(unknown, [], file);
  }
});

test('words: every option of the programs is in the tables of docs/options.md', () => {
  execFileSync(process.execPath, [join(root, 'scripts/options.mjs'), '--check']);
  execFileSync(process.execPath, [join(root, 'scripts/fields.mjs'), '--check']);
});

test('words: links of the documents lead somewhere', () => {
  for (const file of files) {
    for (const [, target = ''] of proseOf(file).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [path = '', anchor] = target.split('#');
      const other = path === '' ? file : join(dirname(file), path);
      assert.ok(existsSync(join(root, other)), `${file}: ${target}`);
      if (anchor !== undefined) assert.ok(anchorsOf(other).has(anchor), `${file}: ${target}`);
    }
  }
});

/** Of the headings, as GitHub makes them. */
function anchorsOf(file: string): Set<string> {
  const headings = proseOf(file).matchAll(/^#+ (.*)$/gm);
  return new Set(
    [...headings].map(([, text = '']) =>
      text
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

test('words: the README is short, and leads to every page', () => {
  const readme = readDocument('README.md');
  assert.ok(readme.split('\n').length <= readmeLinesMax);
  for (const name of readdirSync(join(root, 'docs'))) {
    assert.ok(readme.includes(`](docs/${name})`), `README.md does not lead to docs/${name}`);
  }
  const { files: packed } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    files: string[];
  };
  assert.ok(packed.includes('docs'));
});
