/** A slave beside whose slave.js a sharp lies that cannot be loaded. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { Cluster, root } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { png } from '../support/pictures.ts';

const timeout = 60_000;
const picture = png(1);

test('sharp: one that cannot be loaded counts as none', { timeout }, async (t) => {
  let asked = 0;
  const port = await httpServer(t, ({ url }, response) => {
    if (url === '/a.png') asked++;
    response.writeHead(200, { 'content-type': url === '/a.png' ? 'image/png' : 'text/html' });
    response.end(url === '/a.png' ? picture : '<img src="/a.png">');
  });
  const folder = join(new Cluster(t).folder, 'broken');
  const sharp = join(folder, 'node_modules/sharp');
  mkdirSync(sharp, { recursive: true });
  writeFileSync(join(sharp, 'package.json'), '{"name":"sharp","main":"index.js"}');
  writeFileSync(join(sharp, 'index.js'), 'throw new Error("made for another machine");');
  copyFileSync(join(root, 'slave.js'), join(folder, 'slave.js'));
  const start = async (images: string) => {
    const cluster = new Cluster(t);
    const file = join(cluster.folder, 'file.yaml');
    const seeds = `seeds: ["http://127.0.0.1:${port}/"]\ndelay: 0\n`;
    writeFileSync(file, `${seeds}download: {images: {${images}}}\n`);
    const master = await cluster.master([file, '--exit-when-done']);
    const path = relative(root, join(folder, 'slave.js'));
    const key = join(cluster.data, 'authkey');
    const slave = cluster.run([path, '--master', cluster.address, '--authkey-file', key]);
    await slave.said(/sharp cannot be loaded: made for another machine; .*install it anew/);
    return { cluster, master };
  };
  const plain = await start('similar: auto');
  assert.equal((await plain.master.exited).code, 0, plain.master.output);
  const line = lineOf(plain.cluster);
  assert.equal(line['sha256'], createHash('sha256').update(picture).digest('hex'));
  assert.equal(line['dhash'], undefined);
  // One that must be decoded waits for a slave that can.
  const { cluster, master } = await start('thumbnails: 64');
  while ((await cluster.status()).downloads?.waits === undefined) {}
  cluster.slave();
  assert.equal((await master.exited).code, 0, master.output);
  const other = lineOf(cluster);
  assert.match(String(other['thumbnail']), /\.thumb\.webp$/);
  assert.equal(other['error'], undefined);
  assert.equal(asked, 3, 'the slave without sharp asked for it once');
});

/** Of the one image. */
function lineOf(cluster: Cluster): Record<string, unknown> {
  return JSON.parse(readFileSync(join(cluster.out, 'default/images.jsonl'), 'utf8'));
}
