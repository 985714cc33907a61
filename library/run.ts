/**
 * One run of a crawl for a program: the master that it starts, which starts slaves, and the records
 * that come from it.
 *
 *     starting --> running --exit 0--> over
 *         |           |
 *         |           +--close()--> leaving --> over     the crawl can go on later
 *         +--exit 2--> failed <--any other end--+
 *
 * The master gets the crawl file on its standard input, and notices the end of this process by
 * their channel, so that nothing is left of a crash. It keeps this process alive only while a
 * record is waited for.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { ConfigError, ConnectionError, exitCodes, messageOf } from '../shared/errors.ts';
import { type FromMaster, type ToMaster, takenEvery } from '../shared/record-stream.ts';
import { type CrawlOptions, ownWords, type Start } from './options.ts';
import { type Numbered, recordsOf } from './records.ts';

const program = fileURLToPath(new URL('../../master.js', import.meta.url));
/** How long a master has to end in order, until it is ended, and until it is killed. */
const endMs = 5_000;
const killMs = 8_000;

export class Run {
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  /** The name of the crawl file, in messages of the master. Its paths are relative to it. */
  readonly #file = join(process.cwd(), 'crawl-of-the-program.json');
  readonly #log: (line: string) => void;
  /** Sections that came, and the records of the first one that are left. */
  #messages: FromMaster[] = [];
  #at = 0;
  #records: Generator<Numbered> | undefined;
  #taken = 0;
  #told = 0;
  #toldAt = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #state: 'running' | 'leaving' | 'over' | 'failed' = 'running';
  #fault: unknown;
  /** Its last word, if it ends with an error. */
  #lastWord = '';
  #wake: () => void = () => {};

  constructor({ file, flags, env }: Start, { log = standardError, signal }: CrawlOptions) {
    this.#log = log;
    const listen = ['--listen=127.0.0.1:0', '--only', '--exit-when-done', '--stream'];
    this.#child = spawn(process.execPath, [program, this.#file, ...listen, ...flags], {
      stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
      // Ctrl-C is for this process.
      detached: true,
      env: { ...withoutOptions(process.env), ...env },
    });
    // A master that cannot read it ends, and says why.
    this.#child.stdin?.on('error', () => {}).end(file);
    this.#ended = new Promise((resolve) => {
      this.#child.once('close', (code, end) => {
        this.#over(code, end);
        resolve();
      });
      this.#child.once('error', (error) => {
        this.#fail(new ConfigError(`cannot start ${program}: ${messageOf(error)}`, error));
        if (this.#child.pid === undefined) resolve();
      });
    });
    this.#child.on('message', (message) => this.#receive(message as FromMaster | string));
    this.#readLog();
    this.#refer(false);
    const abort = () => this.#fail(signal?.reason);
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
    void this.#ended.then(() => signal?.removeEventListener('abort', abort));
  }

  /** The next record; undefined: the crawl is finished, and there is none.
   *  @throws ConfigError the operator must act · ConnectionError the master died */
  async next(): Promise<Numbered | undefined> {
    while (true) {
      if (this.#state === 'failed') throw this.#fault;
      const record = this.#shift();
      if (record !== undefined) return record;
      if (this.#state !== 'running') return undefined;
      // All that came is taken.
      this.#refer(true);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#refer(false);
    }
  }

  /** The program is done with a record, and with all before it. */
  done(seq: number): void {
    this.#taken = seq;
    const isDue =
      seq - this.#told >= takenEvery.records || performance.now() - this.#toldAt >= takenEvery.ms;
    if (isDue) this.#tell();
    else this.#timer ??= setTimeout(() => this.#tell(), takenEvery.ms);
  }

  /** Ends the master and its slaves, and resolves when they have ended. Idempotent. */
  async close(): Promise<void> {
    if (this.#state === 'running' || this.#state === 'failed') {
      this.#state = 'leaving';
      this.#send({ taken: this.#taken, leave: true });
    }
    this.#refer(true);
    const timers = [
      setTimeout(() => this.#child.kill('SIGTERM'), endMs),
      setTimeout(() => this.#child.kill('SIGKILL'), killMs),
    ];
    await this.#ended;
    for (const timer of timers) clearTimeout(timer);
  }

  #shift(): Numbered | undefined {
    while (true) {
      const next = this.#records?.next();
      if (next !== undefined && next.done !== true) return next.value;
      this.#records = undefined;
      const [message] = this.#messages;
      if (message === undefined) return undefined;
      const section = message.sections[this.#at++];
      if (section === undefined) {
        this.#messages.shift();
        this.#at = 0;
      } else this.#records = recordsOf(message.crawl, section);
    }
  }

  /** Text: it has read its options. */
  #receive(message: FromMaster | string): void {
    if (typeof message === 'string') return;
    this.#messages.push(message);
    this.#wake();
  }

  #tell(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#told = this.#taken;
    this.#toldAt = performance.now();
    this.#send({ taken: this.#taken });
  }

  #send(message: ToMaster): void {
    // One that is gone has a `close` event.
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  #over(code: number | null, end: NodeJS.Signals | null): void {
    clearTimeout(this.#timer);
    const isDone = code === exitCodes.done || code === exitCodes.unanswered;
    if (this.#state === 'running' && !isDone) {
      const word = ownWords(this.#lastWord, this.#file);
      const died = `the master ended by itself (${end ?? `exit code ${code}`})`;
      this.#fail(
        code === exitCodes.operator && word !== ''
          ? new ConfigError(word)
          : new ConnectionError(`${died}${word && `: ${word}`}; run the same crawl again to go on`),
      );
    } else if (this.#state !== 'failed') this.#state = 'over';
    this.#wake();
  }

  #fail(fault: unknown): void {
    if (this.#state !== 'running') return;
    this.#state = 'failed';
    this.#fault = fault;
    this.#wake();
  }

  #readLog(): void {
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on('line', (line) => {
        const [, word] = /^master: (.*)$/.exec(line) ?? [];
        if (word !== undefined) this.#lastWord = word;
        else this.#tellLog(line);
      });
    }
  }

  /** A throw would end the program, for nobody calls us: it ends the loop. */
  #tellLog(line: string): void {
    try {
      this.#log(line);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Does the child keep this process alive? */
  #refer(isKept: boolean): void {
    const how = isKept ? 'ref' : 'unref';
    this.#child[how]();
    this.#child.channel?.[how]();
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      (stream as Partial<NodeJS.RefCounted> | null)?.[how]?.();
    }
  }
}

/** The options of the call are all. */
function withoutOptions(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^ORB_/i.test(name)));
}

function standardError(line: string): void {
  process.stderr.write(`${line}\n`);
}
