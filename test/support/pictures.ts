/** Pictures for tests, made without a library: PNGs of any size, with a look of their own. */
import { crc32, deflateSync } from 'node:zlib';

export function chunk(kind: string, body: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(body.length, 0);
  head.write(kind, 4, 'latin1');
  const end = Buffer.alloc(4);
  end.writeUInt32BE(crcOf(Buffer.concat([head.subarray(4), body])), 0);
  return Buffer.concat([head, body, end]);
}

const table = Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

/** `zlib.crc32` came with Node 20.15. */
function crcOf(bytes: Buffer): number {
  if (typeof crc32 === 'function') return crc32(bytes);
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (table[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** The head of a PNG that says so, whatever follows. */
export function pngHead(width: number, height: number): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header)]);
}

/** A PNG whose pixels depend on `seed`; `text`: chunks of text (`Copyright`). */
export function png(
  seed: number,
  {
    width = 24,
    height = 16,
    text = {},
  }: { width?: number; height?: number; text?: Record<string, string> } = {},
): Buffer {
  let state = (seed * 2654435761 + 1) >>> 0;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  };
  // Blocks, so that it is no noise: an image of a look that survives being made smaller.
  const blocks = Array.from({ length: 64 }, () => [next(), next(), next()]);
  const rows: Buffer[] = [];
  for (let y = 0; y < height; y++) {
    const row = Buffer.alloc(1 + width * 3);
    for (let x = 0; x < width; x++) {
      const block = blocks[Math.floor((y * 8) / height) * 8 + Math.floor((x * 8) / width)] ?? [];
      row.set(block, 1 + x * 3);
    }
    rows.push(row);
  }
  const texts = Object.entries(text).map(([name, value]) =>
    chunk('tEXt', Buffer.from(`${name}\0${value}`, 'latin1')),
  );
  return Buffer.concat([
    pngHead(width, height),
    ...texts,
    chunk('IDAT', deflateSync(Buffer.concat(rows))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}
