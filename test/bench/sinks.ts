/**
 * Rows a second through the whole master into each kind of output, all of them written: items of
 * five fields and some 200 bytes, 20 of them a page, as a site of tables has them.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import Database from 'libsql';
import { createConnection } from 'mysql2/promise';
import postgres from 'postgres';
import { Cluster } from '../support/cluster.ts';
import { parquetFiles, rowsOfParquet } from '../support/parquet.ts';
import { startMariadb, startPostgres, startRedis } from '../support/servers.ts';
import { count, cpuMs, pause, say } from './measure.ts';
import { hosts, seeds, synthetic, syntheticMaster } from './synthetic.ts';

const seconds = 8;
const rowsOfPage = 20;
const rules = `seeds: ${JSON.stringify(seeds)}
items:
  product:
    each: li
    fields:
      title: h3
      price: { css: .price, type: number }
      isInStock: { css: .stock, type: boolean }
      rating: { css: .rating, type: integer }
      page: { value: url }
`;

type Target = {
  readonly name: string;
  readonly output: string;
  /** Rows a second; undefined: none is set. */
  readonly bar?: number;
  readonly rows: (folder: string) => Promise<number> | number;
};

export async function sinks(): Promise<void> {
  const server = await startPostgres();
  const url = `postgres://postgres@127.0.0.1:${server?.port}/postgres`;
  const linesOf = (file: string) => (folder: string) => {
    const bytes = readFileSync(join(folder, file));
    let lines = 0;
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) lines++;
    return lines;
  };
  const targets: Target[] = [
    {
      name: 'CSV',
      output: 'csv:i.csv',
      bar: 30_000,
      rows: (folder) => linesOf('i.csv')(folder) - 1,
    },
    { name: 'JSONL', output: 'jsonl:i.jsonl', bar: 30_000, rows: linesOf('i.jsonl') },
    {
      name: 'SQLite',
      output: 'sqlite:i.db',
      bar: 20_000,
      rows: (folder) => {
        const db = new Database(join(folder, 'i.db'));
        const [row] = db.prepare('SELECT count(*) AS n FROM product').all() as { n: number }[];
        db.close();
        return row?.n ?? 0;
      },
    },
  ];
  if (server !== undefined) {
    const rows = async () => {
      const sql = postgres(url, { max: 1 });
      const [row] = await sql`SELECT count(*)::int AS n FROM product`;
      await sql.end();
      return Number(row?.['n']);
    };
    targets.push({ name: 'PostgreSQL', output: url, bar: 20_000, rows });
  }
  targets.push({
    name: 'Parquet',
    output: 'parquet:i.parquet',
    rows: async (folder) => (await rowsOfParquet(parquetFiles(folder))).length,
  });
  const mariadb = await startMariadb();
  if (mariadb !== undefined) {
    const to = `mysql://orb@127.0.0.1:${mariadb.port}/orb`;
    const rows = async () => {
      const sql = await createConnection(to);
      const [found] = await sql.query('SELECT count(*) AS n FROM product');
      await sql.end();
      return Number((found as { n: number }[])[0]?.n);
    };
    targets.push({ name: 'MariaDB', output: to, rows });
  }
  const redis = await startRedis();
  if (redis !== undefined) {
    const to = `redis://127.0.0.1:${redis.port}/0`;
    const rows = async () => {
      const client = await createClient({ url: to }).connect();
      const count = await client.lLen('product');
      client.destroy();
      return count;
    };
    targets.push({ name: 'Redis (list)', output: to, rows });
  }
  const chosen = process.env['BENCH_OUTPUTS']?.split(',');
  for (const target of targets) {
    if (chosen === undefined || chosen.includes(target.name)) await measure(target);
  }
  for (const one of [server, mariadb, redis]) await one?.close();
}

/** From the first report to the last row. */
async function measure({ name, output, bar, rows }: Target): Promise<void> {
  await using cluster = new Cluster();
  const file = join(cluster.folder, 'shop.yaml');
  writeFileSync(file, `crawl: default\n${rules}`);
  const master = await syntheticMaster(cluster, ['--output', output], {}, [file]);
  const before = { at: performance.now(), cpuMs: cpuMs(master.pid) };
  await synthetic(cluster, {
    sessions: 4,
    credit: 16,
    links: 10,
    known: 0.8,
    hosts,
    rows: rowsOfPage,
    seconds,
  });
  await cluster.ask('pause', 'default');
  const behind = async () => {
    const { sinks: all } = JSON.parse(await cluster.ask('sinks', 'default', '--json')) as {
      sinks: { records: number }[];
    };
    return Math.max(...all.map(({ records }) => records));
  };
  while ((await behind()) > 0) await pause(100);
  const took = (performance.now() - before.at) / 1000;
  const cpu = cpuMs(master.pid) - before.cpuMs;
  const written = await rows(join(cluster.out, 'default'));
  const wanted = bar === undefined ? 'no bar' : `bar: ${count(bar)}`;
  say(
    `sinks, ${name}: ${count(written / took)} rows/s of items (${wanted}), ` +
      `${((cpu / written) * 1000).toFixed(1)} CPU us a row of the master`,
  );
}
