// `npm start`: one master and two slaves on this machine; see local-run.mjs.
import { runHere } from './local-run.mjs';

const usage = `usage: npm start                                the demo site
       npm start -- https://site/ [more URLs] [master flags]   your own (node master.js --help)
       npm start -- --seeds FILE [master flags]                the URLs of a file`;

const args = process.argv.slice(2);
if (args.includes('--help') || args.includes('-h')) {
  console.log(usage);
  process.exit();
}
process.exit(
  await runHere(args, {
    call: 'npm start --',
    master: 'node master.js',
    slave: 'node slave.js',
    files: 'the files slave.js and orb-data/authkey',
  }),
);
