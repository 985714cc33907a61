/** The contract on real database servers, which this starts where they are installed. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createClient } from '@redis/client';
import { MongoClient } from 'mongodb';
import { createConnection } from 'mysql2/promise';
import postgres from 'postgres';
import { outputKind } from '../../master/sinks/sinks.ts';
import { namedOutputs, outputOf } from '../../shared/outputs.ts';
import { startMariadb, startPostgres, startRedis } from '../support/servers.ts';
import { sinkContract } from './contract.ts';

/** Name of a target in a test, and how it is read. */
type Way = {
  /** The output, with everything in a place of this name. */
  output(place: string): string;
  urls(place: string): Promise<string[]>;
  /** Puts everything aside, and back: another database, where nothing is. */
  rename(from: string, to: string): Promise<void>;
};

function contractOf(name: string, folder: string, { output, urls, rename }: Way): void {
  sinkContract(
    name,
    (_t: TestContext) => {
      const place = `t_${randomBytes(4).toString('hex')}`;
      const [made] = namedOutputs([outputOf(output(place))]);
      if (made === undefined) throw new Error('no output');
      return {
        kind: outputKind(made, { folder: `${folder}/out-${place}`, env: {} }),
        isShared: true,
        urls: () => urls(place),
        harms: [
          {
            what: 'another database',
            harm: () => rename(place, 'away'),
            mend: () => rename('away', place),
          },
        ],
      };
    },
    true,
  );
}

/** Shows how long a server took, and ends it. */
function ended(name: string, end: () => Promise<void>): void {
  const began = performance.now();
  test(`sink: ${name}: the server is ended`, async () => {
    await end();
    console.log(`${name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  });
}

function notTested(name: string, how: string): void {
  console.log(`${name} is NOT TESTED: ${how}`);
}

const ofPostgres = await startPostgres();
if (ofPostgres === undefined) notTested('PostgreSQL', 'install the package postgresql');
else {
  const url = `postgres://postgres@127.0.0.1:${ofPostgres.port}/postgres`;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  contractOf('postgres', ofPostgres.folder, {
    output: (table) => `${url}#records=all&table=${table}`,
    async urls(table) {
      const [there] = await sql`SELECT to_regclass(${table}) AS name`;
      if (there?.['name'] === null) return [];
      const rows = await sql.unsafe(`SELECT url FROM ${table} ORDER BY _seq`);
      return rows.map((row) => String(row['url']));
    },
    async rename(from, to) {
      const cursors = ['orbweaver_cursors', 'cursors_away'];
      if (to !== 'away') cursors.reverse();
      for (const [old, name] of [[from, to], cursors]) {
        await sql.unsafe(`DROP TABLE IF EXISTS ${name}`);
        await sql.unsafe(`ALTER TABLE IF EXISTS ${old} RENAME TO ${name}`);
      }
    },
  });
  ended('PostgreSQL', async () => {
    await sql.end();
    await ofPostgres.close();
  });
}

const ofMariadb = await startMariadb();
if (ofMariadb === undefined) notTested('MariaDB', 'install the package mariadb-server');
else {
  const url = `mysql://orb@127.0.0.1:${ofMariadb.port}/orb`;
  const sql = await createConnection(url);
  const isThere = async (table: string) => {
    const [rows] = await sql.query('SHOW TABLES LIKE ?', [table.replaceAll('_', '\\_')]);
    return (rows as unknown[]).length > 0;
  };
  contractOf('mysql', ofMariadb.folder, {
    output: (table) => `${url}#records=all&table=${table}`,
    async urls(table) {
      if (!(await isThere(table))) return [];
      const [rows] = await sql.query(`SELECT url FROM ${table} ORDER BY _seq`);
      return (rows as { url: string }[]).map((row) => row.url);
    },
    async rename(from, to) {
      const cursors = ['orbweaver_cursors', 'cursors_away'];
      if (to !== 'away') cursors.reverse();
      for (const [old = '', name = ''] of [[from, to], cursors]) {
        await sql.query(`DROP TABLE IF EXISTS ${name}`);
        if (await isThere(old)) await sql.query(`RENAME TABLE ${old} TO ${name}`);
      }
    },
  });
  ended('MariaDB', async () => {
    await sql.end();
    await ofMariadb.close();
  });
}

const ofRedis = await startRedis();
if (ofRedis === undefined) notTested('Redis', 'install the package redis-server');
else {
  const url = `redis://127.0.0.1:${ofRedis.port}/0`;
  const client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
  // Another database is one where neither the records nor the cursors are.
  const away = async (from: string) => {
    await client.swapDb(0, 1);
    if (from !== 'away') await client.flushDb();
  };
  contractOf('redis list', ofRedis.folder, {
    output: (key) => `${url}#records=all&list=${key}`,
    urls: async (key) =>
      (await client.lRange(key, 0, -1)).map((text) => (JSON.parse(text) as { url: string }).url),
    rename: away,
  });
  contractOf('redis stream', ofRedis.folder, {
    output: (key) => `${url}#records=all&stream=${key}`,
    urls: async (key) => {
      const entries = (await client.xRange(key, '-', '+')) ?? [];
      return entries.map(({ message }) => message['url'] ?? '');
    },
    rename: away,
  });
  ended('Redis', async () => {
    client.destroy();
    await ofRedis.close();
  });
}

const mongoUrl = process.env['MONGO_URL'];
if (mongoUrl === undefined || mongoUrl === '') {
  notTested('MongoDB', 'set MONGO_URL to a database that the tests may fill');
} else {
  const client = await new MongoClient(mongoUrl).connect();
  const db = client.db();
  const collections = async () =>
    (await db.listCollections({}, { nameOnly: true }).toArray()).map(({ name }) => name);
  const folder = mkdtempSync(join(tmpdir(), 'orb-mongodb-'));
  contractOf('mongodb', folder, {
    output: (table) => `${mongoUrl}#records=all&table=${table}`,
    urls: async (table) => {
      const found = await db.collection(table).find().sort({ _seq: 1 }).toArray();
      return found.map(({ url }) => String(url));
    },
    async rename(from, to) {
      const cursors = ['orbweaver_cursors', 'cursors_away'];
      if (to !== 'away') cursors.reverse();
      for (const [old = '', name = ''] of [[from, to], cursors]) {
        await db.collection(name).drop();
        if ((await collections()).includes(old)) await db.renameCollection(old, name);
      }
    },
  });
  ended('MongoDB', async () => {
    for (const name of await collections()) {
      if (/^t_[0-9a-f]{8}$|^away$|^cursors_away$/.test(name)) await db.collection(name).drop();
    }
    await client.close();
    rmSync(folder, { recursive: true, force: true });
  });
}
