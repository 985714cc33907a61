/** `node dist/test/fault/crash-points.js [points] [seed] [reports between two rotations]`: the crash-point test at length. */
import { randomInt } from 'node:crypto';
import { crashAtPoints } from '../support/crash-points.ts';

const [points = '500', seed = `${randomInt(1 << 30)}`, rotateEvery = '0'] = process.argv.slice(2);
const startedAt = Date.now();
console.log(`seed ${seed}`);
let told = 0;
const { violations } = await crashAtPoints(
  Number(points),
  Number(seed),
  Number(rotateEvery),
  (done, wrong) => {
    for (; told < wrong.length; told++) console.log(wrong[told]);
    if (done % 50 === 0) console.log(`${done} points, ${wrong.length} violations`);
  },
);
const seconds = Math.round((Date.now() - startedAt) / 1000);
console.log(`points=${points} violations=${violations.length} seconds=${seconds}`);
process.exitCode = violations.length === 0 ? 0 : 1;
