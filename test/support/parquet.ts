/** Reads Parquet files back, by a library that did not write them. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';

/** Paths of the files in a folder, in their order. */
export function parquetFiles(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => /-\d+-\d+\.parquet$/.test(name));
  return names.sort().map((name) => join(folder, name));
}

export async function rowsOfParquet(paths: readonly string[]): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  for (const path of paths) {
    rows.push(...(await parquetReadObjects({ file: await asyncBufferFromFile(path) })));
  }
  return rows;
}
