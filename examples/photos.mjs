// Pictures for the site of the recipes, made of their numbers: waves of colour, as PNG.
import { deflateSync } from 'node:zlib';

const table = Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

function chunk(kind, body) {
  const bytes = Buffer.concat([Buffer.from(kind, 'latin1'), body]);
  let crc = 0xffffffff;
  for (const byte of bytes) crc = table[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(body.length, 0);
  ends.writeUInt32BE((crc ^ 0xffffffff) >>> 0, 4);
  return Buffer.concat([ends.subarray(0, 4), bytes, ends.subarray(4)]);
}

/** Picture `n` in that size, in pixels: the same look in each size. */
export function photo(n, width, height) {
  const wave = (i, x, y) => {
    const along = (x * ((n * 7 + i * 3) % 11)) / width + (y * ((n * 5 + i) % 7)) / height;
    return Math.round(127.5 + 127.5 * Math.sin(n + i + along * 2));
  };
  const rows = Array.from({ length: height }, (_, y) =>
    Buffer.from([
      0,
      ...Array.from({ length: width }, (_, x) => [0, 1, 2].map((i) => wave(i, x, y))).flat(),
    ]),
  );
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2], 8);
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    // Stored, so that the bytes are the same with every zlib.
    chunk('IDAT', deflateSync(Buffer.concat(rows), { level: 0 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}
