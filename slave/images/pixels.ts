/**
 * Decodes images with sharp, where it is installed beside slave.js: how an image looks (dHash, 64
 * bits), and its thumbnail. Both come of one decoding. Pictures of too many pixels are not decoded,
 * at most two are at once, each for a limited time. Text (SVG) is never drawn. A sharp that cannot
 * be loaded, such as one that was copied from another machine, counts as none.
 * Source: Krawetz, "Kind of Like That" (dHash); docs/download.md.
 */
import { messageOf } from '../../shared/errors.ts';
import { type ImageFacts, type ImageType, thumbnailBytesMax } from '../../shared/images.ts';

/** A type for the sake of which no more than this is known of sharp. */
type Sharp = typeof import('sharp')['default'];
type Looks = Pick<ImageFacts, 'dhash' | 'thumbnail' | 'fault'>;

/** Pixels of an image that is decoded, all frames of an animation but the first left out. */
const pixelsMax = 64_000_000;
const secondsMax = 15;
const atOnceMax = 2;
/** Side of what the hash is made of, in pixels: so it is the same with a thumbnail and without. */
const hashSide = 128;
const [columns, rows] = [9, 8];
const decodable: readonly ImageType[] = ['png', 'jpg', 'gif', 'webp', 'avif', 'tiff'];

export class Pixels {
  #sharp: Promise<Sharp | undefined> | undefined;
  /** False: sharp cannot be loaded. */
  isAble = true;
  /** Called when that is found out, with the reason. */
  onUnable: (why: string) => void = () => {};
  #atOnce = 0;
  readonly #waiting: (() => void)[] = [];

  /** Returns how an image looks, or why it cannot be said; undefined: none can be decoded here.
   *  `side`: of its thumbnail; undefined: none. */
  async look(
    type: ImageType,
    image: Buffer,
    size: Size,
    side: number | undefined,
  ): Promise<Looks | undefined> {
    if (!decodable.includes(type)) return {};
    const { width = 0, height = 0 } = size;
    if (width * height > pixelsMax) {
      return { fault: `has more than ${pixelsMax} pixels` };
    }
    this.#sharp ??= load().catch((error: unknown) => this.#fail(error));
    const sharp = await this.#sharp;
    if (sharp === undefined) return undefined;
    await this.#enter();
    try {
      return await decode(sharp, image, side);
    } catch (error) {
      return { fault: firstLine(error) || 'cannot be decoded' };
    } finally {
      this.#atOnce--;
      this.#waiting.shift()?.();
    }
  }

  #fail(error: unknown): undefined {
    this.isAble = false;
    this.onUnable(firstLine(error));
  }

  async #enter(): Promise<void> {
    while (this.#atOnce >= atOnceMax) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#atOnce++;
  }
}

type Size = { readonly width?: number | undefined; readonly height?: number | undefined };

function firstLine(error: unknown): string {
  return messageOf(error).split('\n')[0]?.slice(0, 200) ?? '';
}

async function load(): Promise<Sharp> {
  const { default: sharp } = await import('sharp');
  // Every image is another one, and each slave has its core.
  sharp.cache(false);
  sharp.concurrency(1);
  return sharp;
}

async function decode(sharp: Sharp, image: Buffer, side: number | undefined): Promise<Looks> {
  const options = { limitInputPixels: pixelsMax, failOn: 'error', autoOrient: true } as const;
  const inside = { fit: 'inside', withoutEnlargement: true } as const;
  const widest = Math.max(hashSide, side ?? 0);
  const small = await sharp(image, options)
    .timeout({ seconds: secondsMax })
    .resize({ width: widest, height: widest, ...inside })
    .flatten({ background: '#fff' })
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true });
  const { width, height, channels } = small.info;
  const raw = { raw: { width, height, channels } };
  const grey = await sharp(small.data, raw)
    .resize({ width: columns, height: rows, fit: 'fill', kernel: 'linear' })
    .greyscale()
    .raw()
    .toBuffer({ resolveWithObject: true });
  const dhash = hashOf(grey.data, grey.info.channels);
  if (side === undefined) return { dhash };
  const thumbnail = await sharp(small.data, raw)
    .resize({ width: side, height: side, ...inside })
    .webp({ quality: 75, effort: 2 })
    .toBuffer();
  return thumbnail.length > thumbnailBytesMax ? { dhash } : { dhash, thumbnail };
}

/** A bit for each pixel that is darker than the one to its right. */
function hashOf(grey: Uint8Array, channels: number): Uint8Array {
  const hash = new Uint8Array(8);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns - 1; x++) {
      const at = (y * columns + x) * channels;
      if ((grey[at] ?? 0) < (grey[at + channels] ?? 0)) hash[y] = (hash[y] ?? 0) | (1 << x);
    }
  }
  return hash;
}
