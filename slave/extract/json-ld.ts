/**
 * The pictures of JSON-LD: what stands under schema.org's names for them, as an address or as an
 * ImageObject. What is no JSON is left alone, as search engines do.
 * Source: JSON-LD 1.1; schema.org, ImageObject.
 */

export type LinkedImage = {
  readonly src: string;
  readonly width?: number;
  readonly height?: number;
};

const imageNames = new Set(
  'image images logo photo photos thumbnail thumbnailUrl primaryImageOfPage screenshot'.split(' '),
);
const worthReading =
  /"(?:image|images|logo|photos?|thumbnail(?:Url)?|primaryImageOfPage|screenshot|contentUrl)"/;
const depthMax = 64;
const imagesMax = 10_000;

/** In the order of the text. */
export function jsonLdImages(text: string): LinkedImage[] {
  if (!worthReading.test(text)) return [];
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    return [];
  }
  const found: LinkedImage[] = [];
  walk(root, false, 0, found);
  return found;
}

function walk(node: unknown, isImage: boolean, depth: number, found: LinkedImage[]): void {
  if (depth > depthMax || found.length >= imagesMax) return;
  if (typeof node === 'string') {
    if (isImage) found.push({ src: node });
  } else if (Array.isArray(node)) {
    for (const item of node) walk(item, isImage, depth + 1, found);
  } else if (typeof node === 'object' && node !== null) {
    const fields = node as Readonly<Record<string, unknown>>;
    if (isImage || isImageObject(fields['@type'])) addObject(fields, found);
    for (const [name, value] of Object.entries(fields))
      if (typeof value === 'object' || imageNames.has(name))
        walk(value, imageNames.has(name), depth + 1, found);
  }
}

function addObject(fields: Readonly<Record<string, unknown>>, found: LinkedImage[]): void {
  const src = fields['contentUrl'] ?? fields['url'];
  if (typeof src !== 'string') return;
  const width = pixels(fields['width']);
  const height = pixels(fields['height']);
  found.push({
    src,
    ...(width !== undefined && { width }),
    ...(height !== undefined && { height }),
  });
}

function isImageObject(type: unknown): boolean {
  return type === 'ImageObject' || (Array.isArray(type) && type.includes('ImageObject'));
}

/** A number, `"1200"`, `"1200px"`, or a QuantitativeValue. */
function pixels(value: unknown): number | undefined {
  if (typeof value === 'object' && value !== null && 'value' in value) return pixels(value.value);
  const number = typeof value === 'string' ? Number.parseInt(value, 10) : value;
  return typeof number === 'number' && Number.isInteger(number) && number >= 0 ? number : undefined;
}
