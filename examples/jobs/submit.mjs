// A job system: 12 jobs for the script `words`, on whichever slave has room, each tried again once
// if its slave is lost. Prints their sum: node submit.mjs
import { readFileSync } from 'node:fs';
import { connect } from 'orbweaver';

const authkey = readFileSync('orb-data/authkey', 'utf8').trim();
const waiting = new Set();
let wake = () => {};
const onPush = ({ verb, job }) => {
  if (verb !== 'job.ended') return;
  waiting.delete(job);
  wake();
};
const master = await connect({ host: '127.0.0.1', port: 6666, authkey, onPush });
const jobs = [];
for (let n = 1; n <= 12; n++) {
  const call = { script: 'words', args: Array(n).fill('word'), retries: 1, watch: true };
  const [{ job }] = (await master.request('job.add', call)).jobs;
  jobs.push(job);
}
const { ended } = await master.request('job.watch', { jobs });
for (const job of jobs) if (!ended.includes(job)) waiting.add(job);
while (waiting.size > 0) await new Promise((resolve) => (wake = resolve));
let sum = 0;
for (const job of jobs) sum += Number((await master.request('job.get', { job })).stdout.kept);
console.log(`${jobs.length} jobs counted ${sum} words`);
await master.close();
