import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { UploadRoom } from '../../master/archive/uploads.ts';

const room = new UploadRoom(join(tmpdir(), 'orbweaver-no-uploads'), {
  room: () => Promise.resolve(),
  refused: () => {},
});

test('uploads: heads count in the memory of their session until the report, or its end', async () => {
  const uploads = room.session();
  const lease = 1;
  const head = {
    url: 'http://a/',
    at: 1,
    request: Buffer.alloc(100),
    response: Buffer.alloc(1_000),
  };
  const one = {
    verb: 'task.archive',
    lease,
    part: 0,
    head,
    body: Buffer.from('page'),
    end: 'whole',
  } as const;
  const [first, second] = [Buffer.from('1'), Buffer.from('2')];
  for (const task of [first, second, first]) await uploads.add({ ...one, task });
  await uploads.add({ ...one, task: second, part: 1 });
  assert.equal(uploads.heldBytes, 3 * 1_109, 'part 0 began anew');
  uploads.take(first, lease, 1).drop();
  assert.equal(uploads.heldBytes, 2 * 1_109);
  uploads.close();
  assert.equal(uploads.heldBytes, 0);
});
