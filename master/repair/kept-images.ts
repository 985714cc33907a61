/**
 * The records of the images that a crawl keeps, from the lines that it wrote of them: for
 * repair, where rows of `contents` are lost. Without its row an image would be deleted when the
 * crawl ends, as what a crash has left.
 */
import { join } from 'node:path';
import { type ImageType, imageMediaTypes } from '../../shared/images.ts';
import type { WrittenLine } from '../frontier/kinds/kind.ts';
import { tarEntries } from '../images/tar.ts';
import { contentKey, encodeContent, type KeptImage, type Place } from '../store/image-rows.ts';

const typeOf = new Map(
  Object.entries(imageMediaTypes).map(([type, media]) => [media, type as ImageType]),
);
const shardNamed = /\/((\d{6,9})\.tar)$/;

type Found = KeptImage & { readonly sha256: string; readonly file: string };

export class KeptImages {
  readonly #found = new Map<string, Found>();

  /** A line of images.jsonl. */
  add({ sha256, type, bytes, dhash, group, thumbnail, excluded, file = '' }: WrittenLine): void {
    const known = typeOf.get(String(type));
    if (typeof sha256 !== 'string' || known === undefined || this.#found.has(sha256)) return;
    this.#found.set(sha256, {
      sha256,
      type: known,
      bytes: Number(bytes),
      file: String(file),
      ...(typeof dhash === 'string' && { dhash: Buffer.from(dhash, 'hex') }),
      ...(typeof group === 'string' && { group: Buffer.from(group, 'hex') }),
      ...(thumbnail !== undefined && { hasThumbnail: true }),
      ...(excluded !== undefined && { isDropped: true }),
    });
  }

  /** Their rows; `folder`: of the images. One whose shard was taken away has none. */
  async *rows(crawl: number, folder: string): AsyncGenerator<{ key: Buffer; value: Buffer }> {
    const shards = new Map<string, ReadonlyMap<string, number>>();
    for (const { sha256, file, ...image } of this.#found.values()) {
      const [, name, number] = shardNamed.exec(file) ?? [];
      let place: Place | undefined;
      if (name !== undefined) {
        const places = shards.get(name) ?? (await placesIn(join(folder, name)));
        shards.set(name, places);
        const at = places.get(sha256);
        if (at === undefined) continue;
        place = { shard: Number(number), at };
      }
      const key = contentKey(crawl, Buffer.from(sha256, 'hex'));
      yield { key, value: encodeContent({ ...image, place }) };
    }
  }
}

/** Where the images of a shard begin: each is the first entry of its name. */
async function placesIn(path: string): Promise<ReadonlyMap<string, number>> {
  const places = new Map<string, number>();
  for await (const { name, at } of tarEntries(path)) {
    const sha256 = name.slice(0, 64);
    if (!places.has(sha256)) places.set(sha256, at);
  }
  return places;
}
