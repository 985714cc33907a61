/** Rows a second through the whole master into each kind of output, all of them written. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'libsql';
import postgres from 'postgres';
import { Cluster } from '../support/cluster.ts';
import { startPostgres } from '../support/servers.ts';
import { count, pause, say } from './measure.ts';
import { hosts, synthetic, syntheticMaster } from './synthetic.ts';

const seconds = 8;

type Target = {
  readonly name: string;
  readonly output: string;
  readonly bar: number;
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
    { name: 'CSV', output: 'csv:i.csv', bar: 30_000, rows: linesOf('i.csv') },
    { name: 'JSONL', output: 'jsonl:i.jsonl', bar: 30_000, rows: linesOf('i.jsonl') },
    {
      name: 'SQLite',
      output: 'sqlite:i.db',
      bar: 20_000,
      rows: (folder) => {
        const db = new Database(join(folder, 'i.db'));
        const [row] = db.prepare('SELECT count(*) AS n FROM images').all() as { n: number }[];
        db.close();
        return row?.n ?? 0;
      },
    },
  ];
  if (server !== undefined) {
    const rows = async () => {
      const sql = postgres(url, { max: 1 });
      const [row] = await sql`SELECT count(*)::int AS n FROM images`;
      await sql.end();
      return Number(row?.['n']);
    };
    targets.push({ name: 'PostgreSQL', output: url, bar: 20_000, rows });
  }
  for (const target of targets) await measure(target);
  await server?.close();
}

async function measure({ name, output, bar, rows }: Target): Promise<void> {
  await using cluster = new Cluster();
  const began = performance.now();
  await syntheticMaster(cluster, ['--output', `${output}#records=images`]);
  await synthetic(cluster, {
    sessions: 4,
    credit: 16,
    links: 10,
    known: 0.8,
    hosts,
    images: 20,
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
  const took = (performance.now() - began) / 1000;
  const written = await rows(join(cluster.out, 'default'));
  say(
    `sinks, ${name}: ${count(written / took)} rows/s of images, start and end included (bar: ${count(bar)})`,
  );
}
