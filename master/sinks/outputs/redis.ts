/**
 * The output of a crawl to Redis: a list, one text of JSON a record, or a stream, an entry a record
 * whose id is `<number of the record>-0`. The records of a write and the cursor of the crawl, a key
 * beside them, are changed by one call of a script, which Redis does as a whole, and writes to its
 * log as a whole.
 */
import type { RedisClientType } from '@redis/client';
import { codeOf, messageOf } from '../../../shared/errors.ts';
import type { NamedOutput } from '../../../shared/outputs.ts';
import { HeldError, type SinkKind, UnavailableError } from '../sink.ts';
import { driver, type OutputContext, tlsFault, urlOf } from './context.ts';
import {
  type CursorName,
  type CursorSession,
  type CursorStep,
  cursorKind,
  type Deliverer,
  type Delivery,
  movedCursor,
} from './cursor-sink.ts';
import type { Patience } from './patience.ts';
import { plainOf, type Row, type RowSource, wellFormedJson } from './rows.ts';

const connectMs = 5_000;
/** Records of one call: while it runs, Redis answers nobody else. */
const recordsMax = 1_000;
/** The same, in characters, unless one record is longer. */
const textMax = 1 << 20;

/**
 * KEYS: the list, the cursor. ARGV: what the cursor has to be ('' for none), what it becomes, the
 * texts. Returns 'ok', or the cursor that it found.
 */
const pushScript = `
local was = redis.call('GET', KEYS[2]) or ''
if was ~= ARGV[1] then return 'cursor ' .. was end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'list' and kind ~= 'none' then return 'type ' .. kind end
for i = 3, #ARGV, 500 do
  redis.call('RPUSH', KEYS[1], unpack(ARGV, i, math.min(i + 499, #ARGV)))
end
redis.call('SET', KEYS[2], ARGV[2])
return 'ok'`;

/**
 * KEYS: the stream, the cursor. ARGV: what the cursor has to be ('' for none), what it becomes,
 * then of each record its number, the count of its texts, and these: names and values in turns.
 * Returns 'ok', or the cursor that it found, or the last id of a stream that is ahead.
 */
const addScript = `
local was = redis.call('GET', KEYS[2]) or ''
if was ~= ARGV[1] then return 'cursor ' .. was end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'stream' and kind ~= 'none' then return 'type ' .. kind end
if kind == 'stream' then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      local last = tonumber(string.match(info[i + 1], '^%d+'))
      if last >= tonumber(ARGV[3]) then return 'ahead ' .. info[i + 1] end
    end
  end
end
local i = 3
while i < #ARGV do
  local count = tonumber(ARGV[i + 1])
  redis.call('XADD', KEYS[1], ARGV[i] .. '-0', unpack(ARGV, i + 2, i + 1 + count))
  i = i + 2 + count
end
redis.call('SET', KEYS[2], ARGV[2])
return 'ok'`;

export function redisKind(output: NamedOutput, context: OutputContext): SinkKind {
  return cursorKind<RedisSession>(output, context, {
    cursorPlace: 'the key orbweaver_cursor:…',
    connect: (_crawl, _isNew, patience) => RedisSession.open(output, context, patience),
    deliverer: (source) => new RedisDeliverer(source, output),
  });
}

class RedisDeliverer implements Deliverer<RedisSession> {
  readonly #source: RowSource;
  readonly #output: NamedOutput;

  constructor(source: RowSource, output: NamedOutput) {
    this.#source = source;
    this.#output = output;
  }

  /** One call of the script; a write that is larger than that has several, each whole. */
  async deliver({ session, rows, cursor }: Delivery<RedisSession>): Promise<void> {
    const { stream, list = this.#source.name } = this.#output;
    let { from } = cursor;
    let texts: string[] = [];
    let length = 0;
    let count = 0;
    for (const [i, row] of rows.entries()) {
      const own = stream === undefined ? [jsonOf(row, cursor)] : entryOf(row, cursor);
      for (const text of own) {
        texts.push(text);
        length += text.length;
      }
      count++;
      const isLast = i === rows.length - 1;
      if (!isLast && count < recordsMax && length < textMax) continue;
      const step = { ...cursor, from, to: row.seq };
      await session.push({ key: stream ?? list, isStream: stream !== undefined, step, texts });
      from = row.seq;
      [texts, length, count] = [[], 0, 0];
    }
  }

  lost(): void {}
}

type Push = {
  readonly key: string;
  readonly isStream: boolean;
  readonly step: CursorStep;
  readonly texts: readonly string[];
};

class RedisSession implements CursorSession {
  readonly #client: RedisClientType;
  readonly #patience: Patience;

  private constructor(client: RedisClientType, patience: Patience) {
    this.#client = client;
    this.#patience = patience;
  }

  /** @throws HeldError its URL, or its driver · UnavailableError it cannot be connected to */
  static async open(
    output: NamedOutput,
    context: OutputContext,
    patience: Patience,
  ): Promise<RedisSession> {
    const url = urlOf(context, output);
    // The driver would leave them out, and `tls=true` would be no TLS.
    if (url.includes('?')) {
      throw new HeldError(
        'its URL has parameters behind ?, which Redis has none of; leave them out ' +
          '(rediss://… is with TLS)',
      );
    }
    const { createClient } = await driver('@redis/client', '6.3.1', () => import('@redis/client'));
    let client: RedisClientType;
    try {
      client = createClient({
        url,
        name: 'orbweaver',
        RESP: 2,
        disableOfflineQueue: true,
        socket: { connectTimeout: connectMs, reconnectStrategy: false },
      }) as unknown as RedisClientType;
    } catch (error) {
      // Its message could repeat the URL.
      throw new HeldError('its URL is not one of Redis: redis://user@host:6379/0', error);
    }
    // Each call reports its own error.
    client.on('error', () => {});
    const session = new RedisSession(client, patience);
    try {
      await session.#timed(client.connect(), connectMs);
      await session.#refuseEviction();
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** A server that is a cache deletes the list and keeps the cursor: nobody would miss the records.
   *  `volatile-…` leaves keys without an end alone. A user may be without the right to ask.
   *  @throws HeldError it deletes any key when it is full */
  async #refuseEviction(): Promise<void> {
    const info = await this.#call('INFO', 'memory').catch((error: unknown) => {
      if (/^(?:NOPERM|ERR unknown)/.test(messageOf(error))) return '';
      throw error;
    });
    const [, max = '0'] = /^maxmemory:(\d+)/m.exec(String(info)) ?? [];
    const [, policy = ''] = /^maxmemory_policy:(\S+)/m.exec(String(info)) ?? [];
    if (max === '0' || !policy.startsWith('allkeys')) return;
    throw new HeldError(
      `the server deletes records when it is full: its maxmemory-policy is ${policy}; ` +
        'change that: CONFIG SET maxmemory-policy noeviction',
    );
  }

  async cursor(of: CursorName): Promise<number | undefined> {
    const found = await this.#call('GET', cursorKey(of));
    return found === null ? undefined : Number(found);
  }

  async setCursor(of: CursorName, seq: number): Promise<void> {
    await this.#call('SET', cursorKey(of), String(seq));
  }

  /** @throws HeldError the cursor is not `from`, or something else stands in the key */
  async push({ key, isStream, step, texts }: Push): Promise<void> {
    const { from, to } = step;
    const script = isStream ? addScript : pushScript;
    const values = [from === undefined ? '' : String(from), String(to), ...texts];
    const answer = String(await this.#call('EVAL', script, '2', key, cursorKey(step), ...values));
    if (answer === 'ok') return;
    const [what, found] = answer.split(' ');
    if (what === 'type') {
      const wanted = isStream ? 'stream' : 'list';
      throw new HeldError(
        `its key ${key} is a ${found}, not a ${wanted}; rename that, or give the output another key`,
      );
    }
    if (what === 'ahead') {
      throw new HeldError(
        `the stream ${key} has the id ${found} already, and the next record is ` +
          `${texts[0]}-0: it is of another crawl, or of another output; name another stream`,
      );
    }
    throw movedCursor(from, cursorKey(step));
  }

  async check(): Promise<void> {
    await this.#call('PING');
  }

  close(): Promise<void> {
    if (this.#client.isOpen) this.#client.destroy();
    return Promise.resolve();
  }

  async #call(...args: string[]): Promise<unknown> {
    return await this.#timed(this.#client.sendCommand(args));
  }

  async #timed<T>(work: Promise<T>, atMostMs?: number): Promise<T> {
    return await this.#patience.timed(work, () => void this.close(), faultOf, atMostMs);
  }
}

function cursorKey({ crawl, sink }: CursorName): string {
  return `orbweaver_cursor:${crawl}:${sink}`;
}

function jsonOf({ seq, values }: Row, { crawl }: CursorName): string {
  return wellFormedJson({ _crawl: crawl, _seq: seq, ...values });
}

/** Number, count, and names and values in turns; nothing of what is missing. */
function entryOf({ seq, values }: Row, { crawl }: CursorName): string[] {
  const texts = ['_crawl', crawl];
  for (const [name, value] of Object.entries(values)) {
    const plain = plainOf(value);
    if (plain !== null) texts.push(name, String(plain));
  }
  return [String(seq), String(texts.length), ...texts];
}

/** Answers that pass: it loads, is full or busy, is a replica, cannot write its log, or the log-in
 *  is wrong, which an operator can put right. Source: redis.io/docs, "RESP errors". */
const passing =
  /^(?:LOADING|BUSY|OOM|READONLY|MASTERDOWN|MISCONF|TRYAGAIN|CLUSTERDOWN|NOREPLICAS|WRONGPASS|NOAUTH|UNBLOCKED|NOPERM|ERR max number of clients)/;

/** The end of the answers to a script: its hash and line. */
const placeInScript = /,? script: [0-9a-f]{40}, on @user_script:\d+\.?$/;

function faultOf(error: Error): Error {
  const ofTls = tlsFault(error);
  if (ofTls !== undefined) return ofTls;
  const said = messageOf(error).replace(placeInScript, '');
  const isFull = said.startsWith('OOM ');
  const text = isFull ? `${said} Raise its maxmemory, or delete something in it` : said;
  const code = codeOf(error) ?? '';
  // Its answers begin with a word in capitals; all else is of the connection.
  const isAnswer = /^[A-Z]{3,}\b/.test(text) && code === '';
  if (!isAnswer || passing.test(text)) return new UnavailableError(text || code, error);
  return new HeldError(`${text}; put that right`, error);
}
