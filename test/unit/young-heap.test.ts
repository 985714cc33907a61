/** The young part of the heap, each in a process of its own. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';

const options = { skip: !process.version.startsWith('v20.') && 'Node 20 alone has the factor' };

/** Prints the size of the young part when `code` sees fit to. */
function sizes(code: string): number[] {
  const path = new URL('../../master/machine/young-heap.js', import.meta.url).href;
  const all = `import v8 from 'node:v8';
    import { holdYoungHeap } from '${path}';
    const tell = () => console.log(v8.getHeapSpaceStatistics()
      .find(({ space_name }) => space_name === 'new_space').space_size / 2 ** 20);
    const kept = [];
    const work = () => { for (let i = 0; i < 1_000_000; i++) kept.push({ i }); };
    ${code}`;
  const args = ['--input-type=module', '--eval', all];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  assert.equal(stderr, '');
  return stdout.trim().split('\n').map(Number);
}

test('young heap: it grows to 8 MiB, and no further while much survives', options, () => {
  assert.deepEqual(sizes('holdYoungHeap(); tell(); work(); tell();'), [8, 8]);
  const [free = 0] = sizes('work(); tell();');
  assert.ok(free > 8, `V8 would let it grow to ${free} MiB`);
});

test('young heap: what V8 made smaller is 8 MiB again', options, () => {
  // It takes seconds without work until V8 does.
  const small = "v8.setFlagsFromString('--semi-space-growth-factor=1'); work(); tell();";
  const [before = 0, after] = sizes(`${small} holdYoungHeap(); tell();`);
  assert.ok(before < 8, `${before} MiB`);
  assert.equal(after, 8);
});
