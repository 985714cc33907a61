#!/usr/bin/env node
// The command of the package: `npx orbweaver https://site/`. URLs are crawled on this machine, as
// `npm start` does; the first word is otherwise a command of the master, or one of `words`.
import { readFileSync } from 'node:fs';
import { runHere } from './local-run.mjs';

/** Called by npx, the command stands nowhere in the path. */
const name = process.env.npm_command === 'exec' ? 'npx orbweaver' : 'orbweaver';
/** For the lines of the programs that say what to run. */
process.env.ORBWEAVER_CALL = name;
const usage = `usage: ${name} https://site/ [more URLs] [options]
           crawls a site with a master and two slaves on this machine, into ./crawl-data
       ${name} --seeds FILE [options]       crawls the URLs of a file
       ${name} demo                         crawls a demo site, into ./demo-run
       ${name} master [URLs] [options]      only a master; slaves of other machines may join
       ${name} slave --master HOST:6666     a slave of that master
       ${name} status | add | pause | …     asks the master of this folder

All options and commands:  ${name} master --help
                           ${name} slave --help`;

/** Runs a program of the package in this process, which ends with it. */
async function become(program, args) {
  const url = new URL(`../${program}`, import.meta.url);
  process.argv = [process.argv[0], url.pathname, ...args];
  await import(url.href);
}

async function here(args) {
  const words = {
    call: name,
    master: `${name} master`,
    slave: `${name} slave`,
    files: 'the file orb-data/authkey',
  };
  process.exit(await runHere(args, words));
}

const [first, ...rest] = process.argv.slice(2);
if (first === undefined || first === '--help' || first === '-h' || first === 'help') {
  console.log(usage);
  process.exit(first === undefined ? 2 : 0);
} else if (first === '--version' || first === '-V') {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  console.log(version);
} else if (first === 'slave') await become('slave.js', rest);
else if (first === 'master') await become('master.js', rest);
else if (first === 'demo') await here(rest);
else if (first.startsWith('-') && !rest.includes('--seeds') && !/^--seeds(=|$)/.test(first)) {
  const isHelp = rest.includes('--help') || rest.includes('-h');
  (isHelp ? console.log : console.error)(
    isHelp ? usage : `orbweaver: put the URLs before the options: ${name} https://site/`,
  );
  process.exit(isHelp ? 0 : 2);
} else if (first.startsWith('-') || first.includes('.') || first.includes(':')) {
  await here([first, ...rest]);
} else await become('master.js', [first, ...rest]);
