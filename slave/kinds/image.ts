/**
 * An image of a crawl that downloads them: looked at, hashed, and decoded where that is wanted. Its
 * bytes go to the master only if nobody has them. Source: PROTOCOL.md [T-110] to [T-114].
 */
import { packValue } from '../../shared/frame.ts';
import {
  type ImageFacts,
  imageBytesDefault,
  imagePath,
  mustBeDecoded,
  thumbnailPath,
} from '../../shared/images.ts';
import { isPageStatus } from '../../shared/protocol.ts';
import type { Result } from '../../shared/requests.ts';
import { outcomeOf } from '../fetch/fetched.ts';
import type { FailedOutcome } from '../fetch/outcome.ts';
import { rightsOf } from '../images/metadata.ts';
import type { Pixels } from '../images/pixels.ts';
import type { SharedFolders } from '../images/shared-folder.ts';
import { imageStatement } from '../statements.ts';
import { type ImageBody, ImageReader } from './image-body.ts';
import type { Kind } from './kind.ts';

type ImageFound = {
  readonly ok: true;
  readonly result: Result;
  readonly body?: ImageBody;
  readonly facts?: ImageFacts;
  /** To be sent, if the master wants it. */
  readonly content?: Buffer;
};

/** `pixels`: undefined: nothing is decoded. */
export function imageKind(
  pixels: Pixels | undefined,
  folders: SharedFolders,
): Kind<ImageBody, ImageFound> {
  return {
    putOff({ imagesTo, download }) {
      if (pixels?.isAble === false && mustBeDecoded(download)) return undecoded;
      return imagesTo === undefined ? undefined : putOff(folders.waitMs(imagesTo));
    },

    archivedBytes({ download, imagesTo }) {
      const { store, maxBytes = imageBytesDefault } = download?.images ?? {};
      return store === 'none' && imagesTo === undefined ? maxBytes : undefined;
    },

    plan: {
      accept:
        'image/avif,image/webp,image/png,image/jpeg,image/gif,image/svg+xml,image/*;q=0.8,*/*;q=0.5',
      needsWhole: true,
      keepsBody: true,
      open({ status, spec, header }) {
        const { download, userAgent } = spec;
        if (!isPageStatus(status) || download === undefined) return undefined;
        const isCoded = header('content-encoding').length > 0;
        const [length] = isCoded ? [] : header('content-length');
        return new ImageReader({
          spec: download.images,
          userAgent,
          robots: header('x-robots-tag'),
          length: length === undefined ? undefined : Number(length),
        });
      },
    },

    outcome(fetched) {
      if (fetched.kind === 'body') {
        const { result, body } = fetched;
        const directives = body.directives.length > 0 && { directives: [...body.directives] };
        return { ok: true, result: { ...result, ...directives }, body };
      }
      const outcome = outcomeOf(fetched);
      return outcome.ok ? { ok: true, result: outcome.result } : outcome;
    },

    async complete({ ok, result, body }, { download, imagesTo }, log) {
      if (body === undefined) return { ok, result };
      const { look, excluded, bytes, sha256 } = body;
      const { type, ...size } = look;
      const optOut = body.directives.filter((one) => one === 'noai' || one === 'noimageai');
      const head: ImageFacts = {
        ...sizeOf(size),
        ...(type !== undefined && { type }),
        ...(optOut.length > 0 && { optOut: optOut.join(', ') }),
      };
      if (excluded !== undefined || bytes === undefined || sha256 === undefined || !type) {
        return { ok, result, facts: { ...head, excluded: excluded ?? 'type' } };
      }
      const { similar, thumbnails } = download?.images ?? {};
      const looks = similar === 'off' && thumbnails === undefined ? undefined : pixels;
      const seen = await looks?.look(type, bytes, size, thumbnails);
      // Found out a moment ago; other slaves may be able to.
      if (looks?.isAble === false && mustBeDecoded(download)) return undecoded;
      const facts = { ...head, sha256, ...rightsOf(type, bytes), ...seen };
      if (imagesTo === undefined) return { ok, result, facts, content: bytes };
      const waitMs = await folders.keep(imagesTo, filesOf(facts, bytes), log);
      return putOff(waitMs) ?? { ok, result, facts };
    },

    statements: (held, { result, facts, content }) => [
      imageStatement(held, packValue(result), facts, content),
    ],
  };
}

function sizeOf({ width, height }: Pick<ImageFacts, 'width' | 'height'>) {
  return { ...(width !== undefined && { width }), ...(height !== undefined && { height }) };
}

/** Files to write to a shared folder. */
function filesOf({ sha256, type, thumbnail }: ImageFacts, bytes: Buffer) {
  if (sha256 === undefined || type === undefined) return [];
  const name = Buffer.from(sha256).toString('hex');
  const files: [name: string, bytes: Uint8Array][] = [[imagePath(name, type), bytes]];
  if (thumbnail !== undefined) files.push([thumbnailPath(name), thumbnail]);
  return files;
}

/** It is no fault of the image, so no attempt is counted. */
const undecoded: FailedOutcome = {
  ok: false,
  error: { kind: 'protocol', message: 'the slave cannot decode images' },
  isPutOff: true,
};

/** Nor is this. */
function putOff(waitMs: number): FailedOutcome | undefined {
  if (waitMs === 0) return undefined;
  const error = { kind: 'protocol', message: 'the slave cannot write to --images-to' } as const;
  return { ok: false, error, isPutOff: true, retryAfterMs: Math.ceil(waitMs) };
}
