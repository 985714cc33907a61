/** Two outputs to one file are refused, whatever path leads there. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { refuseMisplaced } from '../../master/sinks/output-places.ts';
import { outputOf } from '../../shared/outputs.ts';

const base = mkdtempSync(join(tmpdir(), 'orbweaver-places-'));
process.once('exit', () => rmSync(base, { recursive: true, force: true }));
const folder = join(base, 'out', 'c');
const here = (name: string) => join(folder, name);

async function refused(outputs: readonly string[], says: RegExp, downloads = false) {
  const place = refuseMisplaced(folder, outputs.map(outputOf), downloads);
  await assert.rejects(place, (error: Error) => {
    assert.match(error.message, says);
    assert.doesNotMatch(error.message, /\n/);
    return true;
  });
}
const taken = (outputs: readonly string[]) => refuseMisplaced(folder, outputs.map(outputOf), false);

test('output places: an absolute path to what another output names, before the folder is there', async () => {
  await refused(
    ['csv:a.csv', `csv:${here('a.csv')}`],
    /^the output csv:\/\S+ must not name the file a\.csv, which a csv output has: name another one$/,
  );
  await refused(['csv:a.csv.gz', `csv:${here('a.csv')}#compress=gzip`], /the file a\.csv\.gz/);
  await refused(['csv:a.csv#rotate=1MB', `csv:${here('a-00002.csv')}`], /with rotate makes/);
  await refused([`csv:${here('a.csv')}#rotate=1MB`, 'csv:a-00002.csv'], /with rotate makes/);
  await taken(['csv:a.csv', `csv:${here('b.csv')}`, `csv:${join(base, 'a.csv')}`]);
  await taken(['sqlite:a.db', `sqlite:${here('a.db')}#records=images`, 'postgres:$DB']);
});

test('output places: a file of the crawl itself', async () => {
  await refused([`jsonl:${here('pages.jsonl')}`], /the result files that each crawl has: name an/);
  await refused([`csv:${here('archive/a.csv')}`], /in a folder that a crawl has itself/);
  await refused([`jsonl:${here('images.jsonl')}`], /what the crawl downloads/, true);
  await taken([`jsonl:${here('images.jsonl')}`, `jsonl:${join(base, 'pages.jsonl')}`]);
});

test('output places: links to folders and files, also to those that are not there yet', async () => {
  mkdirSync(folder, { recursive: true });
  symlinkSync(folder, join(base, 'link'));
  symlinkSync('pages.jsonl', here('mine.jsonl'));
  symlinkSync(join(base, 'link', 'b.csv'), here('twin.csv'));
  symlinkSync('round', here('round'));
  await refused([`jsonl:${join(base, 'link/pages.jsonl')}`], /the result files/);
  await refused(['jsonl:mine.jsonl'], /the output jsonl:mine\.jsonl must not name one of the/);
  await refused(['csv:b.csv', 'csv:twin.csv'], /must not name the file b\.csv/);
  await refused(['csv:a.csv', `csv:${join(base, 'link/a.csv')}`], /must not name the file a\.csv/);
  await refused(['csv:a.csv#rotate=1MB', `csv:${join(base, 'link/a-00001.csv')}`], /rotate makes/);
  await taken(['csv:round', 'csv:a.csv']);
  writeFileSync(here('b.csv'), '');
  await refused(['csv:b.csv', 'csv:twin.csv'], /must not name the file b\.csv/);
});
