/** WebAssembly code, assembled from its text. */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** Assembles a .wat file, by its path in the project. Returns it in base64. */
export async function assembled(path: string): Promise<string> {
  const { default: makeWabt } = await import('wabt');
  const wabt = await makeWabt();
  const text = readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
  const { buffer } = wabt.parseWat(basename(path), text).toBinary({});
  return Buffer.from(buffer).toString('base64');
}
