/** `sinks`, while an output that the crawl has no more still gets what waits for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sinks } from '../../master/wire/commands/sinks.ts';

test('sinks: an output that leaves its crawl is not the result files', async () => {
  const csv = { name: 'csv', kind: 'csv', target: 'a.csv' };
  const state = (name: string, isOutput: boolean) => {
    return { name, state: 'writing', records: 1, bytes: 1, isOutput };
  };
  const frontier = {
    sinks: () => [state('files', false), state('postgres', true), state('csv', true)],
    crawls: { named: () => ({ spec: { outputs: [csv] } }) },
  };
  const { sinks: rows } = await sinks({ frontier } as never, {} as never, {
    verb: 'crawl.sinks',
    id: 1,
    crawl: 'a',
  });
  assert.deepEqual(
    rows.map(({ target }) => target),
    ['the result files', 'it leaves the crawl', 'csv (csv:a.csv)'],
  );
});
