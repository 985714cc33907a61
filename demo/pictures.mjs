// The pictures of the demo site, drawn from the same tables as its pages: spiders and webs as SVG,
// landscapes as PNG in any size.
import { crc32, deflateSync } from 'node:zlib';

const svg = (width, height, content) =>
  Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}">${content}</svg>\n`,
  );
const line = (points, colour, width) =>
  `<path d="M${points}" fill="none" stroke="${colour}" stroke-width="${width}" stroke-linecap="round"/>`;
const at = (value) => value.toFixed(1);

export function spiderPicture({ bodyMm, colour }) {
  const body = 14 + Math.min(bodyMm, 30) * 0.6;
  const legs = [-64, -24, 20, 58].flatMap((angle) =>
    [-1, 1].map((side) => {
      const radians = (angle * Math.PI) / 180;
      const knee = [120 + side * 58 * Math.cos(radians), 84 + 44 * Math.sin(radians) - 20];
      const foot = [120 + side * 96 * Math.cos(radians), 92 + 78 * Math.sin(radians)];
      return line(`120 88 Q${knee.map(at)} ${foot.map(at)}`, colour, 4);
    }),
  );
  const eyes = [-9, -3, 3, 9].map((x) => `<circle cx="${120 + x}" cy="66" r="2.4" fill="#fff"/>`);
  return svg(
    240,
    180,
    `<rect width="240" height="180" fill="#f6f2e8"/>${legs.join('')}` +
      `<ellipse cx="120" cy="${at(92 + body * 0.9)}" rx="${at(body)}" ry="${at(body * 1.25)}" fill="${colour}"/>` +
      `<circle cx="120" cy="78" r="19" fill="${colour}"/>${eyes.join('')}`,
  );
}

export function webPicture({ spokes, rings }) {
  const point = (spoke, radius) => {
    const radians = (2 * Math.PI * spoke) / spokes;
    return `${at(120 + radius * Math.cos(radians))},${at(90 + radius * Math.sin(radians))}`;
  };
  const all = Array.from({ length: spokes }, (_, spoke) => spoke);
  const threads = all.map((spoke) => line(`120,90 L${point(spoke, 86)}`, '#8fa3ad', 1));
  for (let ring = 1; ring <= rings; ring++) {
    const radius = (80 * ring) / rings;
    const points = all.map((spoke) => `L${point(spoke + 1, radius)}`);
    threads.push(line(`${point(0, radius)} ${points.join(' ')}`, '#b8c7ce', 0.8));
  }
  return svg(240, 180, `<rect width="240" height="180" fill="#1d2a33"/>${threads.join('')}`);
}

export function mapPicture(habitats) {
  const places = habitats.map(
    ({ name, x, y, ground }) =>
      `<circle cx="${x}" cy="${y}" r="18" fill="${ground}"/>` +
      `<text x="${x}" y="${y + 32}" font-size="12" text-anchor="middle">${name}</text>`,
  );
  return svg(540, 230, `<rect width="540" height="230" fill="#eef3e2"/>${places.join('')}`);
}

export const logoPicture = () =>
  svg(
    48,
    48,
    `<circle cx="24" cy="28" r="9" fill="#7a2e2e"/><path d="M24 0V20M24 28 6 16M24 28 42 16M24 28 6 42M24 28 42 42" stroke="#7a2e2e" stroke-width="2.5"/>`,
  );

/** A landscape: sky that fades to the horizon, and hills. `width` in pixels, 3:2. */
export function landscapePicture({ sky, ground, x }, width) {
  const height = Math.round((width * 2) / 3);
  const [skyRgb, groundRgb] = [sky, ground].map((colour) =>
    [1, 3, 5].map((digit) => Number.parseInt(colour.slice(digit, digit + 2), 16)),
  );
  const rows = Buffer.alloc(height * (1 + width * 3));
  let offset = 0;
  for (let row = 0; row < height; row++) {
    offset++; // filter type 0: none
    for (let column = 0; column < width; column++) {
      const wave =
        Math.sin((column / width) * 7 + x) + 0.5 * Math.sin((column / width) * 17 + x * 3);
      const isGround = row / height > 0.6 + 0.08 * wave;
      const rgb = isGround ? groundRgb : skyRgb;
      const light = isGround ? 1.25 - (0.5 * row) / height : 0.85 + (0.3 * row) / height;
      for (const value of rgb) rows[offset++] = Math.min(255, value * light);
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2], 8); // 8 bits a channel, RGB
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(type, content) {
  const body = Buffer.concat([Buffer.from(type), content]);
  const frame = Buffer.alloc(body.length + 8);
  frame.writeUInt32BE(content.length, 0);
  body.copy(frame, 4);
  frame.writeUInt32BE(crc32(body), body.length + 4);
  return frame;
}
