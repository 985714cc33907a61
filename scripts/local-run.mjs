// One master and two slaves on this machine, as processes of their own: `npm start` and
// `npx orbweaver` run them.
//
//     npm start                                      crawls the demo site, into demo-run/
//     npm start -- https://site/ [more] [flags…]     crawls those; flags are the master's
//
// Ends with the master, which starts the slaves, and with its exit code. Ctrl-C reaches only the
// master, which drains; a second Ctrl-C ends all of them at once. Ctrl-Z stops all of them. When
// this process is killed, the master ends.
import { spawn } from 'node:child_process';
import { createReadStream, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { basename, dirname, extname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startDemo } from '../demo/server.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const isClone = existsSync(join(root, 'master'));
const slaveCount = 2;
/** A master that was told twice gets this long. */
const leaveTimeoutMs = 5_000;
/** npm passes a Ctrl-C on that the terminal has sent already; closer than this they are one. */
const sameSignalMs = 400;
/** How long the master may take to get ready to be stopped. */
const suspendMs = 1_000;
/** So long after it was sent, a stop has reached this process. */
const stopWithinMs = 50;
/** How often it looks whether npm is still there. */
const npmEveryMs = 500;
/** Exit code of a master none of whose seeds answered. */
const nothingAnswered = 4;
/** So long each answer of the demo takes, as if there was a network. */
const demoDelayMs = 20;

/** Faults that the operator has to put right. */
class UsageError extends Error {}

// ---------------------------------------------------------------- what to run

/** `call`: how the operator calls this program, up to the URLs.
 *  @returns {Promise<{args: string[], out: string, crawl: string, env: object, input: string,
 *  hello: string | undefined, close(): Promise<void>, isDemo: boolean}>} */
async function makePlan(args, call) {
  const firstFlag = args.findIndex((arg) => arg.startsWith('-'));
  const urls = firstFlag < 0 ? args : args.slice(0, firstFlag);
  const flags = firstFlag < 0 ? [] : args.slice(firstFlag);
  urls.forEach((url, index) => {
    refuseNonUrl(url, index, call);
  });
  if (urls.length === 0 && flags.some((flag) => /^https?:/.test(flag))) {
    throw new UsageError(`put the URLs before the flags: ${call} https://site/ --max-depth 3`);
  }
  const files = flagValues(flags, 'seeds');
  const isOwn = urls.length + files.length > 0;
  return isOwn ? ownPlan(urls, files, flags) : await demoPlan(flags);
}

function ownPlan(urls, files, flags) {
  const { env } = process;
  const given = (name) =>
    flagValue(flags, name) ?? env[`ORB_${name.toUpperCase().replaceAll('-', '_')}`];
  const data = given('data') ?? './orb-data';
  const out = given('out') ?? './crawl-data';
  const crawl = given('crawl') ?? (urls.length > 0 ? crawlNameOf(urls[0]) : fileCrawlName(files));
  const own = ['--data', data, '--out', out, '--crawl', crawl];
  if (given('listen') === undefined) own.push('--listen', '127.0.0.1:0');
  return {
    // The last flag counts, so the user's own flags do.
    args: [...urls, '--exit-when-done', '--slaves', String(slaveCount), ...own, ...flags],
    ...{ out, crawl, env, isDemo: false, hello: undefined },
    input: files.includes('-') ? 'inherit' : 'ignore',
    close: async () => {},
  };
}

async function demoPlan(flags) {
  for (const name of ['data', 'out', 'crawl', 'listen', 'authkey-file', 'only']) {
    if (flagValue(flags, name) !== undefined) {
      throw new UsageError(`--${name} needs a URL to crawl; the demo uses demo-run/`);
    }
  }
  // A clone keeps it for itself; an installed package may not be written to.
  const folder = join(isClone ? root : process.cwd(), 'demo-run');
  const data = join(folder, 'data');
  if (await isListening(join(data, 'master.addr'))) {
    throw new UsageError(`another demo is running in ${folder}; stop it first`);
  }
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch (error) {
    throw new UsageError(`the demo cannot use ${folder}: ${error.message}`);
  }
  const demo = await startDemo({ delayMs: demoDelayMs });
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
    ...{ out, crawl: 'demo', env, isDemo: true, input: 'ignore' },
    hello: `the demo site, a field guide to spiders, is served on ${demo.url}`,
    close: demo.close,
  };
}

function refuseNonUrl(text, index, call) {
  if (/^https?:\/\//i.test(text) && URL.canParse(text)) return;
  const guess = text.includes('://') ? 'https://example.org/' : `https://${text}`;
  throw new UsageError(
    `"${text}" is not an http or https URL; ` +
      (index === 0
        ? `write it in full, as ${guess}`
        : // npm keeps flags for itself unless a -- stands before them, but not their values.
          `if it is the value of a flag, put the flag before it: ${call} https://site/ --max-depth 3`),
  );
}

/** A crawl is found again by its name: so an interrupted one goes on when started once more. */
function crawlNameOf(url) {
  const name = new URL(url).host.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '');
  return name.slice(0, 64) || 'default';
}

/** The name of the first file; `default` for standard input. */
function fileCrawlName([file]) {
  const name = basename(file, extname(file)).replace(/[^A-Za-z0-9._-]+/g, '-');
  return /^[A-Za-z0-9]/.test(name) ? name.slice(0, 64) : 'default';
}

function flagValue(flags, name) {
  return flagValues(flags, name).at(-1);
}

function flagValues(flags, name) {
  return flags.flatMap((flag, index) => {
    if (flag !== `--${name}` && !flag.startsWith(`--${name}=`)) return [];
    const [, value] = flag.split(/=(.*)/s);
    return [value ?? flags[index + 1] ?? ''];
  });
}

// ---------------------------------------------------------------- the process

/** Runs the master, which starts the slaves, to its end. */
class Run {
  #master;
  #firstSignalAt;
  #isStopping = false;
  /** The log is JSON, so that all of stdout is. */
  isJson = false;

  get interrupted() {
    return this.#firstSignalAt !== undefined;
  }

  /** Resolves with the master's exit code. */
  async end({ args, env, input, hello }) {
    // A process group of its own keeps the terminal's Ctrl-C from reaching it directly. By its
    // channel it learns that this process is gone.
    this.#master = spawn(process.execPath, [join(root, 'master.js'), ...args], {
      stdio: [input, 'inherit', 'inherit', 'ipc'],
      detached: true,
      env,
    });
    this.#master.on('message', (message) => {
      if (message !== 'json' && message !== 'text') return;
      this.isJson = message === 'json';
      if (hello !== undefined) print(this.isJson, hello);
    });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => this.#asked());
    if (process.platform !== 'win32') {
      process.on('SIGTSTP', () => void this.#suspend());
      // The terminal tells its own processes alone.
      process.on('SIGWINCH', () => this.#master.kill('SIGWINCH'));
    }
    onNpmGone(() => this.#asked());
    const end = await new Promise((settle, reject) => {
      this.#master.once('error', reject);
      this.#master.once('exit', (code, signal) => settle(code ?? signal));
    });
    if (typeof end === 'string') console.error(`start: the master was ended by ${end}`);
    return typeof end === 'string' ? 1 : end;
  }

  /** Ctrl-Z: the master first, so that nothing is painted over the shell's prompt. */
  async #suspend() {
    if (this.#isStopping) return;
    this.#isStopping = true;
    await new Promise((settle) => {
      const timer = setTimeout(settle, suspendMs);
      this.#master.on('message', (message) => {
        if (message !== 'stopping') return;
        clearTimeout(timer);
        settle();
      });
      this.#master.kill('SIGTSTP');
    });
    const release = this.#guard();
    process.kill(process.pid, 'SIGSTOP');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stopWithinMs);
    release();
    this.#master.kill('SIGCONT');
    this.#isStopping = false;
  }

  /** Lets the master go on if this process is killed while it is stopped: a shell waits at a pipe
   *  that closes then. The master sees that this process is gone, and ends. */
  #guard() {
    const shell = spawn(
      '/bin/sh',
      ['-c', 'read -r end; kill -CONT "$1"', 'guard', String(this.#master.pid)],
      { detached: true, stdio: ['pipe', 'ignore', 'ignore'] },
    );
    shell.on('error', () => {});
    shell.unref();
    return () => shell.kill('SIGKILL');
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

/** npm runs this program in a shell, and both outlive it when it is killed. */
function onNpmGone(end) {
  if (process.env.npm_lifecycle_event === undefined) return;
  const { ppid } = process;
  const shell = parentOf(ppid);
  const timer = setInterval(() => {
    if (process.ppid === ppid && parentOf(ppid) === shell) return;
    clearInterval(timer);
    end();
  }, npmEveryMs);
  timer.unref();
}

/** Undefined where the system does not show it. Source: proc(5), field 4 of `stat`. */
function parentOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1];
  } catch {
    return undefined;
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

/** A line of ours between those of the log. */
function print(isJson, msg, fields = {}) {
  const entry = { level: 'info', time: new Date().toISOString(), ...fields, msg };
  console.log(isJson ? JSON.stringify(entry) : msg);
}

/** The counts of the results, from the files themselves. */
async function report(plan, { interrupted, isJson }, words) {
  const folder = resolve(plan.out, plan.crawl);
  const pagesPath = join(folder, 'pages.jsonl');
  const imagesPath = join(folder, 'img_src.txt');
  let pages = 0;
  let failed = 0;
  let images = 0;
  for await (const line of linesOfAll(pagesPath)) {
    const { error, images: onPage } = JSON.parse(line);
    if (error !== undefined) failed++;
    else if (onPage !== undefined) pages++;
  }
  for await (const _ of linesOfAll(imagesPath)) images++;
  const count = (value, noun) =>
    `${value.toLocaleString('en-US')} ${noun}${value === 1 ? '' : 's'}`;
  const shown = (path) => relative(process.cwd(), path) || path;
  const found = `${count(pages, 'page')} and ${count(images, 'image')}, ${count(failed, 'URL')} failed`;
  if (isJson) {
    const files = { pages: shown(pagesPath), images: shown(imagesPath) };
    const msg = `${interrupted ? 'stopped; so far: ' : ''}${found}`;
    print(true, msg, { pages, images, failed, files });
    return;
  }
  console.log(`
${interrupted ? 'Stopped. So far: ' : ''}${found}.
  pages   ${shown(pagesPath)}
  images  ${shown(imagesPath)}
`);
  if (interrupted && !plan.isDemo) {
    console.log('The same command goes on where this one stopped.');
  } else {
    console.log(`Your own site:  ${words.call} https://your-site.example/
More machines:  ${words.master} https://your-site.example/ --exit-when-done
                and on each, with ${words.files} copied to it:
                ${words.slave} --master this-machine:6666 --authkey-file authkey`);
  }
}

/** Of a result file, and of those that `rotate` has closed. */
async function* linesOfAll(path) {
  const [end, folder] = [extname(path), dirname(path)];
  const stem = `${basename(path, end)}-`;
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const isClosed = (name) => /^\d{8}T\d{6}Z$/.test(name.slice(stem.length, -end.length));
  for (const name of names) {
    const isPart = name.startsWith(stem) && name.endsWith(end) && isClosed(name);
    if (isPart) yield* linesOf(join(folder, name));
  }
  yield* linesOf(path);
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

/** Runs all of it, and resolves with the exit code. `words`: how the operator calls the programs. */
export async function runHere(args, words) {
  try {
    const plan = await makePlan(args, words.call);
    const run = new Run();
    const code = await run.end(plan);
    await plan.close();
    if (code === 0 || code === nothingAnswered) await report(plan, run, words);
    else if (run.interrupted) {
      print(run.isJson, 'Stopped at once. The same command goes on from there.');
    }
    return code;
  } catch (error) {
    console.error(`start: ${error.message}`);
    return error instanceof UsageError ? 2 : 1;
  }
}
