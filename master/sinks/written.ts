/** Reads back what the file sink of a crawl has written: for repair. */
import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { Lengths } from '../store/records.ts';
import { fileNames, noLengths } from './files.ts';

const chunkBytes = 1 << 20;

/** URLs that a line of pages.jsonl is about, and images. */
export type Written = {
  readonly onPage: (line: { url: string; finalUrl?: string; canonical?: string }) => void;
  readonly onImage: (src: string) => void;
};

export function readWritten(folder: string, { onPage, onImage }: Written): void {
  eachLine(join(folder, fileNames.pages), (line) => {
    try {
      onPage(JSON.parse(line) as Parameters<Written['onPage']>[0]);
    } catch {
      // torn by the crash; it is written again
    }
  });
  eachLine(join(folder, fileNames.images), onImage);
}

/** Bytes of the whole lines in each file. */
export function lengthsOfFiles(folder: string): Lengths {
  const names = Object.entries(fileNames).map(([file, name]) => {
    return [file, eachLine(join(folder, name), () => {})];
  });
  return { ...noLengths, ...(Object.fromEntries(names) as Partial<Lengths>) };
}

/** Gives the bytes of the whole lines. */
function eachLine(path: string, visit: (line: string) => void): number {
  if (!existsSync(path)) return 0;
  const file = openSync(path, 'r');
  try {
    const chunk = Buffer.alloc(chunkBytes);
    let rest = Buffer.alloc(0);
    let bytes = 0;
    while (true) {
      const count = readSync(file, chunk, 0, chunkBytes, null);
      if (count === 0) return bytes;
      const text = Buffer.concat([rest, chunk.subarray(0, count)]);
      const end = text.lastIndexOf(10) + 1;
      bytes += end;
      rest = text.subarray(end);
      for (const line of text.toString('utf8', 0, end).split('\n').slice(0, -1)) visit(line);
    }
  } finally {
    closeSync(file);
  }
}
