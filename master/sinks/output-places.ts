/**
 * Where the files of outputs are in truth: a path and a link may be the place of another output, or
 * of a file that the crawl writes itself.
 */
import { readlink, realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { ConfigError } from '../../shared/errors.ts';
import { misplacedOf } from '../../shared/output-fit.ts';
import { fileOf, isFileKind, type Output } from '../../shared/outputs.ts';

/** As many as the system follows. */
const linksMax = 40;

/** The first output whose file is that of one before it, or of the crawl itself: its place in the
 *  list, and what is wrong, beginning with a verb. `folder`: of the crawl, which need not be there.
 */
export async function misplacedIn(
  folder: string,
  outputs: readonly Output[],
  downloads: boolean,
): Promise<ReturnType<typeof misplacedOf>> {
  const home = await placeOf(resolve(folder));
  const resolved = outputs.map(async (output): Promise<Output> => {
    if (!isFileKind(output.kind)) return output;
    const { compress, ...plain } = output;
    const path = resolve(folder, fileOf(output));
    // Parts have names of their own beside it.
    const isRotated = output.rotate !== undefined;
    const place = isRotated ? join(await placeOf(dirname(path)), basename(path)) : placeOf(path);
    return { ...plain, target: inside(home, await place) };
  });
  return misplacedOf(await Promise.all(resolved), downloads);
}

/** @throws ConfigError one of the outputs has no file of its own */
export async function refuseMisplaced(
  folder: string,
  outputs: readonly Output[],
  downloads: boolean,
): Promise<void> {
  const misplaced = await misplacedIn(folder, outputs, downloads);
  if (misplaced === undefined) return;
  const { kind = '', target = '' } = outputs[misplaced.index] ?? {};
  throw new ConfigError(`the output ${kind}:${target} ${misplaced.why}`);
}

/** A path in the folder of the crawl as a name. */
function inside(home: string, path: string): string {
  const name = relative(home, path);
  return name === '' || isAbsolute(name) || /^\.\.(?:\/|$)/.test(name) ? path : name;
}

/** The path without links, as far as it is there. */
async function placeOf(path: string, links = 0): Promise<string> {
  const found = await realpath(path).catch(() => undefined);
  if (found !== undefined || dirname(path) === path || links > linksMax) return found ?? path;
  const folder = await placeOf(dirname(path), links);
  // The target of a link may not be there yet.
  const to = await readlink(path).catch(() => undefined);
  if (to === undefined) return join(folder, basename(path));
  return await placeOf(resolve(folder, to), links + 1);
}
