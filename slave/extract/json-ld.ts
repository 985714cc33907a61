/**
 * The pictures of JSON-LD: the values of schema.org's image properties, as an address or as an
 * ImageObject. Text that is not JSON is ignored, as search engines do; `parsePageJson` forgives
 * common mistakes.
 * Source: JSON-LD 1.1; schema.org, ImageObject.
 */
import { parsePageJson } from '../page-json.ts';

type LinkedImage = {
  readonly src: string;
  readonly width?: number;
  readonly height?: number;
};

/** Properties of schema.org whose value is an image. */
export const imageNames: ReadonlySet<string> = new Set(
  'image images logo photo photos thumbnail thumbnailUrl primaryImageOfPage screenshot'.split(' '),
);
/** Containers of values. Source: JSON-LD 1.1, 9.4 to 9.7. */
const containers = new Set(['@list', '@set', '@value']);
const worthReading =
  /"(?:image|images|logo|photos?|thumbnail(?:Url)?|primaryImageOfPage|screenshot|contentUrl)"|ImageObject"/;

/** In the order of the text. */
export function jsonLdImages(text: string): LinkedImage[] {
  if (!worthReading.test(text)) return [];
  let root: unknown;
  try {
    root = parsePageJson(text);
  } catch {
    return [];
  }
  return imagesOf(root).map((image) => ({ ...image, src: withoutReferences(image.src) }));
}

/** A script has no character references, but sites print one for the `&` of an address. */
function withoutReferences(address: string): string {
  return address.replace(/&(?:amp|#0?38|#x26);/gi, '&');
}

/** Walks the tree in order, with an explicit stack: a text can be as deep as it is long. */
function imagesOf(root: unknown): LinkedImage[] {
  const found: LinkedImage[] = [];
  type Open = { readonly node: unknown; readonly isImage: boolean };
  const stack: Open[] = [{ node: root, isImage: false }];
  for (let open = stack.pop(); open !== undefined; open = stack.pop()) {
    const { node, isImage } = open;
    if (typeof node === 'string') {
      if (isImage) found.push({ src: node });
    } else if (Array.isArray(node)) {
      for (let at = node.length - 1; at >= 0; at--) stack.push({ node: node[at], isImage });
    } else if (typeof node === 'object' && node !== null) {
      const fields = node as Readonly<Record<string, unknown>>;
      if (isImage || isImageObject(fields['@type'])) addObject(fields, found);
      for (const [name, value] of Object.entries(fields).reverse()) {
        const isOfImage = imageNames.has(name) || (isImage && containers.has(name));
        if (typeof value === 'object' || isOfImage) stack.push({ node: value, isImage: isOfImage });
      }
    }
  }
  return found;
}

function addObject(fields: Readonly<Record<string, unknown>>, found: LinkedImage[]): void {
  const contents = texts(fields['contentUrl']);
  const width = pixels(fields['width']);
  const height = pixels(fields['height']);
  for (const src of contents.length > 0 ? contents : texts(fields['url'])) {
    found.push({
      src,
      ...(width !== undefined && { width }),
      ...(height !== undefined && { height }),
    });
  }
}

function texts(value: unknown): readonly string[] {
  return (Array.isArray(value) ? value : [value]).filter((one) => typeof one === 'string');
}

/** Also with the prefix of a context, or as a whole IRI. */
function isImageObject(type: unknown): boolean {
  return texts(type).some((one) => /(?:^|[:/#])ImageObject$/.test(one));
}

/** A number, `"1200"`, `"1200px"`, or a QuantitativeValue. */
function pixels(value: unknown): number | undefined {
  if (typeof value === 'object' && value !== null && 'value' in value) return pixels(value.value);
  const number = typeof value === 'string' ? Number.parseInt(value, 10) : value;
  return typeof number === 'number' && Number.isInteger(number) && number >= 0 ? number : undefined;
}
