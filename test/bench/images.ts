/**
 * `--download images`: images a second with master and slave on one core, new and known; what a
 * thumbnail and a look cost the slave; how well images are found that look the same; and how long
 * the search takes among many.
 */
import { spawnSync } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import sharp, { type Sharp } from 'sharp';
import { Likeness } from '../../master/images/likeness.ts';
import { Pixels } from '../../slave/images/pixels.ts';
import { Cluster, type Program } from '../support/cluster.ts';
import { pngHead } from '../support/pictures.ts';
import { randomUint32s } from '../support/random.ts';
import { count, cpuMs, median, say } from './measure.ts';

const perPage = 40;
const rounds = 3;

type Site = { readonly url: string; readonly firstAt: () => number; close(): void };

/** Pages with links to all, and `images` images: `body(n)` is the content of each. */
async function serve(images: number, type: string, body: (n: number) => Buffer): Promise<Site> {
  const pages = Math.ceil(images / perPage);
  let firstAt = 0;
  const server = createServer((request, response) => {
    const [, kind, digits] = /^\/([pi])(\d+)/.exec(request.url ?? '') ?? [];
    const n = Number(digits);
    if (kind === 'i') {
      firstAt ||= performance.now();
      response.writeHead(200, { 'content-type': type }).end(body(n));
    } else if (kind === 'p') {
      const links = n > 0 ? [] : Array.from({ length: pages }, (_, i) => `<a href="/p${i}">p</a>`);
      const shown = Array.from({ length: perPage }, (_, i) => n * perPage + i);
      const tags = shown.filter((i) => i < images).map((i) => `<img src="/i${i}">`);
      response.writeHead(200, { 'content-type': 'text/html' }).end(links.join('') + tags.join(''));
    } else response.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/p0`,
    firstAt: () => firstAt,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Puts a process with its threads on one core. */
function pin(core: number, pid: number | undefined): void {
  const { status, stderr } = spawnSync('taskset', ['-a', '-c', '-p', String(core), String(pid)]);
  if (status !== 0) throw new Error(`taskset: ${stderr}`);
}

/** One crawl. Returns images a second, and CPU ms an image: of the slave, and of both. */
async function crawl(images: number, site: Site, settings: string, isPinned: boolean) {
  await using cluster = new Cluster();
  const file = join(cluster.folder, 'bench.yaml');
  const spec = `seeds: ["${site.url}"]\nper-host: 64\ndownload: {images: {${settings}}}\n`;
  writeFileSync(file, spec);
  const master = await cluster.master([file, '--exit-when-done', '--crawl', 'bench']);
  const slave: Program = cluster.slave(['--slots', '16']);
  for (const { pid } of isPinned ? [master, slave] : [slave]) pin(0, pid);
  await master.said(/slave joined/);
  const programs = [slave, master];
  const before = programs.map(({ pid }) => cpuMs(pid));
  let used: number[] = [];
  const looks = setInterval(() => {
    if (!programs.every(({ isAlive }) => isAlive)) return;
    used = programs.map(({ pid }, i) => cpuMs(pid) - (before[i] ?? 0));
  }, 100);
  await master.said(/crawl bench is done/);
  const seconds = (performance.now() - site.firstAt()) / 1000;
  clearInterval(looks);
  if (!new RegExp(`, ${count(images)} images, 0 failed`).test(master.output)) {
    throw new Error(master.output);
  }
  const [ofSlave = 0, ofMaster = 0] = used;
  const cpuMsEach = { slave: ofSlave / images, both: (ofSlave + ofMaster) / images };
  return { rate: images / seconds, cpuMsEach };
}

async function hashOnly(): Promise<void> {
  const images = 4_000;
  const noise = randomFillSync(Buffer.alloc(20_000));
  const bodyOf = (n: number) => {
    const body = Buffer.concat([pngHead(100, 100), noise]);
    body.writeUInt32BE(n, 60);
    return body;
  };
  for (const [name, bar, of] of [
    ['new content', 400, (n: number) => n],
    ['known content', 1_000, (n: number) => n % 40],
  ] as const) {
    const rates: number[] = [];
    const costs: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const site = await serve(images, 'image/png', (n) => bodyOf(of(n) + round * images));
      const { rate, cpuMsEach } = await crawl(images, site, 'similar: off', true);
      site.close();
      rates.push(rate);
      costs.push(cpuMsEach.both);
    }
    say(
      `images, 20 KB, hash only, master and slave on one core, ${name}: ` +
        `${count(median(rates))} a second; ${median(costs).toFixed(2)} ms of CPU each, so ` +
        `${count(1000 / median(costs))} where nothing else runs (bar: ${count(bar)})`,
    );
  }
}

/** A picture that looks like no other one: soft blots, shapes with edges, and grain. */
function picture(seed: number, width: number, height: number): Sharp {
  const next = randomUint32s(seed + 1);
  const [columns, rows] = [5 + (next() % 9), 4 + (next() % 7)];
  const blots = Buffer.from(Array.from({ length: columns * rows * 3 }, () => next() & 255));
  const raw = { raw: { width: columns, height: rows, channels: 3 } } as const;
  const shapes = Array.from({ length: 4 }, () => {
    const [x, y, w, h] = [next() % width, next() % height, next() % 240, next() % 240];
    return `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="#${(next() & 0xffffff).toString(16).padStart(6, '0')}" opacity=".7"/>`;
  });
  const svg = `<svg width="${width}" height="${height}">${shapes.join('')}</svg>`;
  return sharp(blots, raw)
    .resize(width, height, { fit: 'fill', kernel: 'cubic' })
    .composite([{ input: Buffer.from(svg) }]);
}

async function decoded(): Promise<void> {
  const images = 400;
  const [width, height] = [800, 600];
  const bodies = await Promise.all(
    Array.from({ length: images }, (_, n) => picture(n, width, height).jpeg().toBuffer()),
  );
  const costs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const site = await serve(images, 'image/jpeg', (n) => bodies[n] ?? Buffer.alloc(0));
    costs.push((await crawl(images, site, 'similar: on, thumbnails: 160', false)).cpuMsEach.slave);
    site.close();
  }
  const each = median(costs);
  say(
    `images, JPEG of 800x600, thumbnail of 160 pixels and dHash: ${each.toFixed(1)} ms of CPU ` +
      `of the slave each, ${count(1000 / each)} a second a core (bar: 90)`,
  );
}

const changes: readonly (readonly [string, number, (image: Sharp) => Sharp])[] = [
  ['half the size', 99, (image) => image.resize(320)],
  ['recompressed', 99, (image) => image.jpeg({ quality: 40 })],
  ['smaller and recompressed', 99, (image) => image.resize(400).jpeg({ quality: 60 })],
  ['recoloured', 95, (image) => image.modulate({ brightness: 1.15, saturation: 0.6, hue: 25 })],
  ['cropped by 5 %', 85, (image) => image.extract({ left: 16, top: 12, width: 608, height: 456 })],
];

/** A number as a name of 32 bytes, and back. */
function nameOf(n: number): Buffer {
  const name = Buffer.alloc(32);
  name.writeUInt32BE(n);
  return name;
}

const numberOf = (name: Uint8Array | undefined) => name && Buffer.from(name).readUInt32BE();

/** Do variants come into the groups of their originals, and nothing else? */
async function similar(): Promise<void> {
  const images = 200;
  const pixels = new Pixels();
  const likeness = new Likeness();
  const look = async (image: Buffer, type: 'png' | 'jpg') =>
    (await pixels.look(type, image, { width: 640, height: 480 }, undefined))?.dhash;
  const originals: Buffer[] = [];
  let right = 0;
  let wrong = 0;
  let groups = 0;
  for (let n = 0; n < images; n++) {
    const original = await picture(n, 640, 480).png().toBuffer();
    originals.push(original);
    const dhash = await look(original, 'png');
    const group = dhash && numberOf(likeness.add(dhash, nameOf(n)));
    if (group === n) groups++;
    else if (group !== undefined) wrong++;
  }
  say(`images, ${images} different ones: ${groups} groups`);
  for (const [i, [name, bar, change]] of changes.entries()) {
    let found = 0;
    for (const [n, original] of originals.entries()) {
      const changed = change(sharp(original));
      const { data, info } = await changed.toBuffer({ resolveWithObject: true });
      const dhash = await look(data, info.format === 'jpeg' ? 'jpg' : 'png');
      const own = images * (i + 1) + n;
      const group = dhash && numberOf(likeness.add(dhash, nameOf(own)));
      if (group === n) found++;
      else if (group !== undefined && group !== own) wrong++;
    }
    right += found;
    const percent = ((found / images) * 100).toFixed(1);
    say(`  ${name}: ${percent} % are in the group of their original (bar: ${bar} %)`);
  }
  const precision = ((right / (right + wrong)) * 100).toFixed(1);
  say(`  of those in a group of another image, ${precision} % belong there (bar: 98 %)`);
}

function search(): void {
  const seen: (readonly [many: number, indexFrom: number])[] = [
    ...([100_000, 1_000_000, 4_000_000, 10_000_000].map((many) => [many, many]) as [
      number,
      number,
    ][]),
    ...([4_000_000, 10_000_000].map((many) => [many, 1_000_000]) as [number, number][]),
  ];
  for (const [many, indexFrom] of seen) {
    const likeness = new Likeness(indexFrom + 100);
    const hash = Buffer.alloc(8);
    const began = performance.now();
    for (let n = 0; n < many; n++) likeness.restore(randomFillSync(hash), nameOf(n % 1_000));
    const seconds = (performance.now() - began) / 1000;
    const times = Array.from({ length: 40 }, () => {
      const cpu = process.cpuUsage();
      likeness.add(randomFillSync(hash), nameOf(many));
      const { user, system } = process.cpuUsage(cpu);
      return (user + system) / 1000;
    });
    const how = indexFrom < many ? 'by blocks' : 'compared with all';
    say(
      `images, a look among ${count(many)}, ${how}: ${median(times).toFixed(2)} ms of CPU; ` +
        `${seconds.toFixed(1)} s to restore`,
    );
  }
}

export async function images(): Promise<void> {
  await hashOnly();
  await decoded();
}

export async function looks(): Promise<void> {
  await similar();
  search();
}
