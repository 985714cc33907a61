/** The documents of the project as their readers see them: fenced blocks and their commands. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './cluster.ts';

/** A fenced block. */
export type Block = {
  /** Path from the root. */
  readonly file: string;
  /** Number of its first line of text, from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
};

/** A command of a `sh` or `console` block, with its output in the document. */
export type Command = { readonly text: string; readonly line: number; readonly prints: string[] };

/** The documents for users, by path from the root. */
export const documentFiles: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'examples/python/README.md',
  ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`),
];

export function readDocument(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

/** Blocks of every document, in order. */
export function blocksOf(file: string): Block[] {
  const blocks: Block[] = [];
  let open: { line: number; language: string; lines: string[] } | undefined;
  for (const [i, line] of readDocument(file).split('\n').entries()) {
    if (!line.startsWith('```')) open?.lines.push(line);
    else if (open === undefined) open = { line: i + 2, language: line.slice(3), lines: [] };
    else {
      blocks.push({ file, line: open.line, language: open.language, text: open.lines.join('\n') });
      open = undefined;
    }
  }
  return blocks;
}

/** A document without its fenced blocks. */
export function proseOf(file: string): string {
  return readDocument(file).replace(/^```[\s\S]*?^```/gm, '');
}

/** Commands of a block: in `console` the text after `$`, in `sh` every line that is not a
 *  comment. */
export function commandsOf(block: Block): Command[] {
  const lines = block.text.replaceAll('\\\n', '').split('\n');
  const commands: Command[] = [];
  for (const [i, line] of lines.entries()) {
    if (block.language === 'console' && !line.startsWith('$ ')) {
      if (line !== '') commands.at(-1)?.prints.push(line);
      continue;
    }
    const text = line
      .replace(/^\$ /, '')
      .replace(/(^| {2,})# .*$/, '')
      .replace(/ +/g, ' ')
      .trim();
    if (text !== '') commands.push({ text, line: block.line + i, prints: [] });
  }
  return commands;
}
