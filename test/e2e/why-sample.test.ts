/**
 * `why` on a sample of URLs of one crawl: admitted, skipped, failed, done, redirected to, never
 * seen. The right answers come from the result files and the rows of the store, read here by
 * other means. On a real site, with more URLs:
 *
 *     SITE=http://127.0.0.1:18302/doc/html/index.html SAMPLE=10000 PAGES=2500 \
 *       node --test dist/test/e2e/why-sample.test.js
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { StoppedMaster } from '../../master/inspect/stopped-master.ts';
import { crawlKey, decodeBuried, decodeTask } from '../../master/store/records.ts';
import { generateSite, randomOf } from '../../selftest/site.ts';
import type { Replies } from '../../shared/replies.ts';
import type { UrlFate } from '../../shared/url-fate.ts';
import { Cluster } from '../support/cluster.ts';
import { siteFor } from '../support/parts.ts';

const sampleCount = Number(process.env['SAMPLE'] ?? 600);
const pagesMax = Number(process.env['PAGES'] ?? 60);
const real = process.env['SITE'];
const timeout = real === undefined ? 120_000 : 3_600_000;

type Wanted = {
  readonly state: UrlFate['state'];
  /** The page that led to it; undefined: not compared. */
  readonly from?: string | undefined;
  /** The URL of its line. */
  readonly line?: string;
  /** The rule that decides against it. */
  readonly rule?: string;
  readonly error?: string;
};
type Line = Record<string, string | undefined> & { url: string; error?: { kind: string } };
type Class = 'done' | 'failed' | 'alias' | 'skipped' | 'waiting' | 'buried' | 'never' | 'refused';

function linesOf(folder: string, file: string): Line[] {
  const path = join(folder, file);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Line);
}

/** The expected answers, by class. */
async function truthOf(cluster: Cluster, site: string): Promise<Map<Class, Map<string, Wanted>>> {
  const truth = new Map<Class, Map<string, Wanted>>();
  const put = (kind: Class, url: string, wanted: Wanted) => {
    const known = truth.get(kind) ?? new Map<string, Wanted>();
    truth.set(kind, known.set(url, wanted));
  };
  const folder = join(cluster.out, 'default');
  const own = new Set<string>();
  const stopped = await StoppedMaster.open({ dataFolder: cluster.data, outFolder: cluster.out });
  const all = { from: crawlKey(1), to: crawlKey(2) };
  for (const { value } of stopped.store.range('buried', all)) {
    const { url, kind } = decodeBuried(value);
    own.add(url);
    put('buried', url, { state: 'buried', error: kind });
  }
  for (const { value } of stopped.store.range('tasks', all)) {
    const { url } = decodeTask(value);
    own.add(url);
    put('waiting', url, { state: 'waiting' });
  }
  await stopped.close();
  const lines = linesOf(folder, 'pages.jsonl');
  for (const { url, from, error } of lines) {
    if (own.has(url)) continue;
    own.add(url);
    put(error === undefined ? 'done' : 'failed', url, { state: 'done', from, line: url });
  }
  for (const { url, finalUrl, redirectedTo } of lines) {
    if (finalUrl === undefined || redirectedTo !== undefined || own.has(finalUrl)) continue;
    put('alias', finalUrl, { state: 'done', line: url });
  }
  for (const { url, skipped, from } of linesOf(folder, 'skipped.jsonl')) {
    if (own.has(url)) continue;
    put('skipped', url, { state: 'skipped', from, line: url, ...(skipped && { rule: skipped }) });
  }
  const { origin } = new URL(site);
  for (let i = 0; i < sampleCount; i++) {
    put('never', `${origin}/never/seen/${i}`, { state: 'unknown' });
    put('refused', `${origin}/never/left-out/${i}`, { state: 'unknown', rule: 'exclude' });
    put('refused', `http://never${i}.example/`, { state: 'unknown', rule: 'host' });
  }
  return truth;
}

/** About as many of each class. */
function sampleOf(truth: Map<Class, Map<string, Wanted>>): [string, Wanted][] {
  const random = randomOf(7);
  const queues = [...truth.values()].map((urls) =>
    [...urls].map((one) => ({ one, at: random() })).sort((a, b) => a.at - b.at),
  );
  const sample: [string, Wanted][] = [];
  while (sample.length < sampleCount) {
    for (const queue of queues) {
      const next = queue.pop();
      if (next !== undefined && sample.length < sampleCount) sample.push(next.one);
    }
  }
  return sample;
}

type Ask = (url: string, after?: Uint8Array) => Promise<Replies['crawl.why']>;

/** Asks for all of them; returns what is not as it should be, and the time of each. */
async function wrongAnswers(sample: readonly [string, Wanted][], ask: Ask) {
  const wrong: string[] = [];
  const times: number[] = [];
  for (const [url, wanted] of sample) {
    const began = performance.now();
    let reply = await ask(url);
    while (reply.next !== undefined) reply = await ask(url, reply.next);
    times.push(performance.now() - began);
    const [fate, ...others] = reply.fates;
    const line = fate?.line === undefined ? undefined : (JSON.parse(fate.line) as Line).url;
    const isRight =
      others.length === 0 &&
      fate?.state === wanted.state &&
      (wanted.from === undefined || fate.from === wanted.from) &&
      (wanted.line === undefined || line === wanted.line) &&
      (wanted.rule === undefined || fate.rule?.by === wanted.rule) &&
      (wanted.error === undefined || fate.error?.kind === wanted.error) &&
      fate.text.length > 0;
    if (!isRight)
      wrong.push(`${url}: ${JSON.stringify(wanted)}, not ${JSON.stringify(reply.fates)}`);
  }
  times.sort((a, b) => a - b);
  const at = (part: number) => (times[Math.floor(part * (times.length - 1))] ?? 0).toFixed(1);
  return { wrong, ms: `median ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms` };
}

test('why: a sample of the URLs of a crawl, without a master and with one', {
  timeout,
}, async (t) => {
  const site = real ?? (await siteFor(t, generateSite(21, 200))).url;
  const cluster = new Cluster(t);
  const options = ['--max-pages', String(pagesMax), '--exclude', 'left-out|[13579]$|/[a-c][^/]*$'];
  const master = await cluster.master([site, ...options, '--attempts', '1']);
  const slave = cluster.slave();
  await master.said(/crawl default is done/);
  await slave.kill('SIGTERM');
  await master.kill('SIGTERM');
  const truth = await truthOf(cluster, site);
  const sample = sampleOf(truth);
  for (const [kind, urls] of truth) {
    const asked = sample.filter(([url]) => urls.has(url)).length;
    t.diagnostic(`${kind}: ${urls.size} URLs, ${asked} asked`);
  }
  const stopped = await StoppedMaster.open({ dataFolder: cluster.data, outFolder: cluster.out });
  const record = stopped.crawl('default');
  const before = await wrongAnswers(sample, (url, after) => stopped.why(record, url, after));
  await stopped.close();
  t.diagnostic(`without a master: ${before.ms}`);
  assert.deepEqual(before.wrong.slice(0, 5), []);

  await cluster.master([]);
  const client = await cluster.connect();
  const asked = await wrongAnswers(sample, (url, after) => {
    return client.request('crawl.why', { crawl: 'default', url, ...(after && { after }) });
  });
  await client.close();
  t.diagnostic(`with a master: ${asked.ms}`);
  assert.deepEqual(asked.wrong.slice(0, 5), []);
});
