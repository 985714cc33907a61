/** A slave in another language, written from PROTOCOL.md alone, does its work. */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { after, afterEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Status, statusOf, Target } from '../support/target.ts';

const script = fileURLToPath(new URL('../../../test/protocol/slave.py', import.meta.url));
const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

function hasPython(): boolean {
  try {
    execFileSync('python3', ['-c', 'import sys; assert sys.version_info >= (3, 8)']);
    return true;
  } catch {
    return false;
  }
}

type Step = { readonly step: string; readonly url?: string; readonly state?: string };

test('a slave in 100 lines of Python joins, fetches, reports, is acknowledged, leaves', async (t) => {
  if (!hasPython()) return t.skip('there is no python3 >= 3.8 here');
  // Only to see that the snake will be alone.
  const other = await target.slave(t);
  if (other === undefined) return;
  const crawl = await target.crawl(other, [target.seed()], { maxDepth: 1 });
  const { stdout } = await promisify(execFile)(
    'python3',
    [script, target.host, String(target.port), '3'],
    { env: { ...process.env, ORB_AUTHKEY: target.authkey.toString() }, timeout: 20_000 },
  );
  const steps = stdout.trim().split('\n');
  const said = steps.map((line) => JSON.parse(line) as Step);
  const of = (name: string) => said.filter(({ step }) => step === name);
  assert.equal(of('joined').length, 1);
  assert.equal(of('task').length, 3);
  assert.deepEqual(
    of('acknowledged').map(({ state }) => state),
    ['done', 'done', 'done'],
  );
  assert.equal(said.at(-1)?.step, 'bye');
  const { pages, images, known } = await statusOf(other, crawl);
  assert.deepEqual([pages, images, known], [3, 3, 3]);
  const { sessions } = (await other.must('crawl.list')) as unknown as Status;
  assert.ok(!sessions.some(({ name }) => name === 'snake'));
  await other.close();
});
