/** The contract on real database servers, which this starts where they are installed. */
import { randomBytes } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import postgres from 'postgres';
import { outputKind } from '../../master/sinks/sinks.ts';
import { namedOutputs, outputOf } from '../../shared/outputs.ts';
import { startPostgres } from '../support/servers.ts';
import { sinkContract } from './contract.ts';

const server = await startPostgres();
const began = performance.now();

if (server === undefined) {
  console.log('PostgreSQL is NOT TESTED: install the package postgresql');
} else {
  const url = `postgres://postgres@127.0.0.1:${server.port}/postgres`;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  sinkContract(
    'postgres',
    (t: TestContext) => {
      const table = `t_${randomBytes(4).toString('hex')}`;
      const [output] = namedOutputs([outputOf(`${url}#records=all&table=${table}`)]);
      if (output === undefined) throw new Error('no output');
      const away = async (from: string, to: string) => {
        await sql.unsafe(`DROP TABLE IF EXISTS ${to}`);
        await sql.unsafe(`ALTER TABLE IF EXISTS ${from} RENAME TO ${to}`);
      };
      const kind = outputKind(output, { folder: `${server.folder}/out-${table}`, env: {} });
      t.after(() => sql.unsafe(`DROP TABLE IF EXISTS ${table}`));
      return {
        kind,
        isShared: true,
        async urls() {
          const [there] = await sql`SELECT to_regclass(${table}) AS name`;
          if (there?.['name'] === null) return [];
          const rows = await sql.unsafe(`SELECT url FROM ${table} ORDER BY _seq`);
          return rows.map((row) => String(row['url']));
        },
        harms: [
          {
            what: 'another database',
            harm: async () => {
              await away(table, `${table}_away`);
              await away('orbweaver_cursors', 'cursors_away');
            },
            mend: async () => {
              await away(`${table}_away`, table);
              await away('cursors_away', 'orbweaver_cursors');
            },
          },
        ],
      };
    },
    true,
  );

  test('sink: postgres: the server is ended', async () => {
    await sql.end();
    await server.close();
    console.log(`PostgreSQL: ${((performance.now() - began) / 1000).toFixed(1)} s`);
  });
}
