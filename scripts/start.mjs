// `npm start`: one master and two slaves on this machine, as processes of their own.
//
//     npm start                                      crawls the demo site, into demo-run/
//     npm start -- https://site/ [more] [flags…]     crawls those; flags are the master's
//
// Ends with the master, which starts the slaves, and with its exit code. Ctrl-C reaches only the
// master, which drains; a second Ctrl-C ends all of them at once.
import { spawn } from 'node:child_process';
import { createReadStream, readFileSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startDemo } from '../demo/server.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const slaveCount = 2;
/** A master that was told twice gets this long. */
const leaveTimeoutMs = 5_000;
/** npm passes a Ctrl-C on that the terminal has sent already; closer than this they are one. */
const sameSignalMs = 400;
/** Long enough an answer that the work of the demo can be watched. */
const demoDelayMs = 60;

const usage = `usage: npm start                                the demo site
       npm start -- https://site/ [more URLs] [master flags]   your own (node master.js --help)`;

class UsageError extends Error {}

// ---------------------------------------------------------------- what to run

/** @returns {Promise<{args: string[], out: string, crawl: string, env: object,
 *  close(): Promise<void>, isDemo: boolean}>} */
async function makePlan(args) {
  const firstFlag = args.findIndex((arg) => arg.startsWith('-'));
  const urls = firstFlag < 0 ? args : args.slice(0, firstFlag);
  const flags = firstFlag < 0 ? [] : args.slice(firstFlag);
  urls.forEach(refuseNonUrl);
  if (urls.length === 0 && flags.some((flag) => /^https?:/.test(flag))) {
    throw new UsageError('put the URLs before the flags: npm start -- https://site/ --max-depth 3');
  }
  return urls.length === 0 ? await demoPlan(flags) : ownPlan(urls, flags);
}

function ownPlan(urls, flags) {
  const { env } = process;
  const given = (name) =>
    flagValue(flags, name) ?? env[`ORB_${name.toUpperCase().replaceAll('-', '_')}`];
  const data = given('data') ?? './orb-data';
  const out = given('out') ?? './crawl-data';
  const crawl = given('crawl') ?? crawlNameOf(urls[0]);
  const own = ['--data', data, '--out', out, '--crawl', crawl];
  if (given('listen') === undefined) own.push('--listen', '127.0.0.1:0');
  return {
    // What stands last counts, so the user's own flags do.
    args: [...urls, '--exit-when-done', '--slaves', String(slaveCount), ...own, ...flags],
    ...{ out, crawl, env, isDemo: false },
    close: async () => {},
  };
}

async function demoPlan(flags) {
  for (const name of ['data', 'out', 'crawl', 'listen', 'authkey-file']) {
    if (flagValue(flags, name) !== undefined) {
      throw new UsageError(`--${name} needs a URL to crawl; the demo uses demo-run/`);
    }
  }
  const folder = join(root, 'demo-run');
  const data = join(folder, 'data');
  if (await isListening(join(data, 'master.addr'))) {
    throw new UsageError(`another demo is running in ${folder}; stop it first`);
  }
  rmSync(folder, { recursive: true, force: true });
  const demo = await startDemo({ delayMs: demoDelayMs });
  console.log(`the demo site, a field guide to spiders, is served on ${demo.url}`);
  const out = join(folder, 'out');
  const own = ['--data', data, '--out', out, '--crawl', 'demo', '--listen', '127.0.0.1:0'];
  // Settings of the user's own crawls have no say in the demo.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('ORB_')),
  );
  return {
    args: [
      ...[demo.url, '--exit-when-done', '--slaves', String(slaveCount), ...own],
      ...['--delay', '0', '--per-host', '16', ...flags],
    ],
    ...{ out, crawl: 'demo', env, isDemo: true },
    close: demo.close,
  };
}

function refuseNonUrl(text, index) {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return;
  const guess = text.includes('://') ? 'https://example.org/' : `https://${text}`;
  throw new UsageError(
    `"${text}" is not an http or https URL; ` +
      (index === 0
        ? `write it in full, as ${guess}`
        : // npm keeps flags for itself unless a -- stands before them, but not their values.
          'if it is the value of a flag, put a -- before all: npm start -- https://site/ --max-depth 3'),
  );
}

/** A crawl is found again by its name: so an interrupted one goes on when started once more. */
function crawlNameOf(url) {
  const name = new URL(url).host.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '');
  return name.slice(0, 64) || 'default';
}

function flagValue(flags, name) {
  const index = flags.findLastIndex(
    (flag) => flag === `--${name}` || flag.startsWith(`--${name}=`),
  );
  if (index < 0) return undefined;
  const [, value] = flags[index].split(/=(.*)/s);
  return value ?? flags[index + 1];
}

// ---------------------------------------------------------------- the process

/** Runs the master, which starts the slaves, to its end. */
class Run {
  #master;
  #firstSignalAt;

  get interrupted() {
    return this.#firstSignalAt !== undefined;
  }

  /** Resolves with the master's exit code. */
  async end({ args, env }) {
    // A process group of its own keeps the terminal's Ctrl-C from reaching it directly.
    this.#master = spawn(process.execPath, [join(root, 'master.js'), ...args], {
      stdio: ['ignore', 'inherit', 'inherit'],
      detached: true,
      env,
    });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => this.#asked());
    const end = await new Promise((settle, reject) => {
      this.#master.once('error', reject);
      this.#master.once('exit', (code, signal) => settle(code ?? signal));
    });
    if (typeof end === 'string') console.error(`start: the master was ended by ${end}`);
    return typeof end === 'string' ? 1 : end;
  }

  #asked() {
    const now = Date.now();
    if (this.#firstSignalAt === undefined) {
      this.#firstSignalAt = now;
      this.#master.kill('SIGINT');
    } else if (now - this.#firstSignalAt > sameSignalMs) {
      this.#master.kill('SIGINT');
      setTimeout(() => this.#master.kill('SIGKILL'), leaveTimeoutMs).unref();
    }
  }
}

/** Does somebody listen where this file of an earlier demo says? */
async function isListening(path) {
  let address;
  try {
    address = readFileSync(path, 'utf8').trim();
  } catch {
    return false;
  }
  const port = Number(address.split(':').at(-1));
  if (!(port > 0 && port < 65_536)) return false;
  return await new Promise((settle) => {
    const socket = createConnection({ host: '127.0.0.1', port, timeout: 1_000 });
    const end = (answer) => {
      socket.destroy();
      settle(answer);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(false));
    socket.once('error', () => end(false));
  });
}

// ---------------------------------------------------------------- the end

/** What was found, from the files themselves. */
async function report(plan, interrupted) {
  const folder = resolve(plan.out, plan.crawl);
  const pagesPath = join(folder, 'pages.jsonl');
  const imagesPath = join(folder, 'img_src.txt');
  let pages = 0;
  let failed = 0;
  let images = 0;
  for await (const line of linesOf(pagesPath)) {
    const { error, images: onPage } = JSON.parse(line);
    if (error !== undefined) failed++;
    else if (onPage !== undefined) pages++;
  }
  for await (const _ of linesOf(imagesPath)) images++;
  const count = (value, noun) =>
    `${value.toLocaleString('en-US')} ${noun}${value === 1 ? '' : 's'}`;
  const shown = (path) => relative(process.cwd(), path) || path;
  console.log(`
${interrupted ? 'Stopped. So far: ' : ''}${count(pages, 'page')} and ${count(images, 'image')}, ${count(failed, 'URL')} failed.
  pages   ${shown(pagesPath)}
  images  ${shown(imagesPath)}
`);
  if (interrupted && !plan.isDemo) {
    console.log('The same command goes on where this one stopped.');
  } else {
    console.log(`Your own site:  npm start -- https://your-site.example/
More machines:  node master.js https://your-site.example/ --exit-when-done
                and on each, with the files slave.js and orb-data/authkey copied to it:
                node slave.js --master this-machine:6666 --authkey-file authkey`);
  }
}

async function* linesOf(path) {
  const input = createReadStream(path);
  // Without this, a file that was never made would be an error out of nowhere.
  const opened = await new Promise((settle) => {
    input.once('open', () => settle(true));
    input.once('error', () => settle(false));
  });
  if (opened) yield* createInterface({ input });
}

async function main(args) {
  if (args.includes('--help') || args.includes('-h')) {
    console.log(usage);
    return 0;
  }
  const plan = await makePlan(args);
  const run = new Run();
  const code = await run.end(plan);
  await plan.close();
  if (code === 0) await report(plan, run.interrupted);
  else if (run.interrupted) console.log('Stopped at once. The same command goes on from there.');
  return code;
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  console.error(`start: ${error.message}`);
  process.exit(error instanceof UsageError ? 2 : 1);
}
