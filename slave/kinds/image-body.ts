/**
 * An image on its way in: its head is looked at first, so that one which the crawl does not want is
 * not read to its end. The rest is kept and hashed.
 */
import { createHash, type Hash } from 'node:crypto';
import { productToken, type RobotsDirective } from '../../shared/crawl.ts';
import { type ImageExclusion, type ImagesSpec, imageBytesDefault } from '../../shared/images.ts';
import { addHeaderDirectives, listed } from '../extract/robots-directives.ts';
import type { BodyReader } from '../fetch/fetch-plan.ts';
import { headBytesMax, type Look, lookAt } from '../images/header.ts';

/** `bytes` is absent where it is excluded. */
export type ImageBody = {
  readonly look: Partial<Look>;
  readonly excluded?: ImageExclusion | undefined;
  readonly bytes?: Buffer;
  readonly sha256?: Buffer;
  readonly directives: readonly RobotsDirective[];
};

type ImageOptions = {
  readonly spec: ImagesSpec;
  readonly userAgent: string;
  /** The fields of X-Robots-Tag. */
  readonly robots: readonly string[];
  /** Content-Length of a body without a coding. */
  readonly length: number | undefined;
};

export class ImageReader implements BodyReader<ImageBody> {
  readonly #spec: ImagesSpec;
  readonly #bytesMax: number;
  readonly #directives: readonly RobotsDirective[];
  readonly #hash: Hash = createHash('sha256');
  #chunks: Buffer[] = [];
  #look: Look | undefined;
  #excluded: ImageExclusion | undefined;
  bytes = 0;

  constructor({ spec, userAgent, robots, length }: ImageOptions) {
    this.#spec = spec;
    this.#bytesMax = spec.maxBytes ?? imageBytesDefault;
    const found = new Set<RobotsDirective>();
    const token = productToken(userAgent).toLowerCase();
    for (const field of robots) addHeaderDirectives(found, field, token);
    this.#directives = listed(found) ?? [];
    const isOut = this.#directives.some((one) => one === 'noai' || one === 'noimageai');
    if (isOut && spec.ignoreOptOut !== true) this.#excluded = 'opt-out';
    else if (length !== undefined && length > this.#bytesMax) this.#excluded = 'bytes';
  }

  write(chunk: Uint8Array): 'more' | 'enough' {
    this.bytes += chunk.length;
    if (this.bytes > this.#bytesMax) this.#excluded ??= 'bytes';
    if (this.#excluded === undefined) {
      // A copy: the chunk may be a view of a larger buffer.
      const copy = Buffer.from(chunk);
      this.#chunks.push(copy);
      this.#hash.update(copy);
      if (this.#look === undefined) this.#judge(false);
    }
    if (this.#excluded === undefined) return 'more';
    this.#chunks = [];
    return 'enough';
  }

  end(): ImageBody {
    if (this.#excluded === undefined && this.#look === undefined) this.#judge(true);
    if (this.bytes < (this.#spec.minBytes ?? 1)) this.#excluded ??= 'bytes';
    const [look, directives] = [this.#look ?? {}, this.#directives];
    if (this.#excluded !== undefined) return { look, directives, excluded: this.#excluded };
    const [only] = this.#chunks;
    const bytes = this.#chunks.length === 1 && only ? only : Buffer.concat(this.#chunks);
    this.#chunks = [];
    return { look, directives, bytes, sha256: this.#hash.digest() };
  }

  close(): void {
    this.#chunks = [];
  }

  #judge(isAll: boolean): void {
    const [first] = this.#chunks;
    const head = this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks);
    // Looked at whenever it has doubled, so that small chunks do not cost more.
    if (!isAll && head.length > 64 && head.length < this.#judgedBytes * 2) return;
    this.#judgedBytes = head.length;
    const look = lookAt(head.subarray(0, headBytesMax), isAll || head.length > headBytesMax);
    if (look === 'more') return;
    this.#look = look;
    this.#excluded = look === undefined ? 'type' : exclusionOf(look, this.#spec);
  }
  #judgedBytes = 0;
}

/** Why an image of that head is not wanted. One whose size is not known is not small. */
function exclusionOf(
  { type, width, height }: Look,
  { types, minWidth, maxWidth, minHeight, maxHeight, maxAspect }: ImagesSpec,
): ImageExclusion | undefined {
  if (types !== undefined && !types.includes(type)) return 'type';
  if (width !== undefined && isOutside(width, minWidth, maxWidth)) return 'width';
  if (height !== undefined && isOutside(height, minHeight, maxHeight)) return 'height';
  if (maxAspect === undefined || !width || !height) return undefined;
  return Math.max(width, height) / Math.min(width, height) > maxAspect ? 'aspect' : undefined;
}

function isOutside(value: number, min = 0, max = Number.POSITIVE_INFINITY): boolean {
  return value < min || value > max;
}
