/** Files of stores, as tests make and harm them. */
import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Change } from '../../master/store/store.ts';

/** A row of a crawl that there is not: nobody reads it. */
export function row(id: number, bytes: number): Change {
  const key = Buffer.alloc(8);
  key.writeUInt32BE(id);
  return { table: 'earlier', key, value: Buffer.alloc(bytes, id) };
}

/** Changes a bit of the file. */
export async function flip(path: string, at: number): Promise<void> {
  const file = await open(path, 'r+');
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, at);
  buffer[0] = (buffer[0] ?? 0) ^ 1;
  await file.write(buffer, 0, 1, at);
  await file.close();
}

/** Bytes that a process has read by calls, from disk or cache. */
export function bytesRead(pid: number): number {
  return Number(/^rchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'latin1'))?.[1]);
}
