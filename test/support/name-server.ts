/**
 * A name server on loopback with the answers of a test: addresses, a failure, late or never. It
 * speaks UDP and answers queries for A and AAAA. Source: RFC 1035, 4.1.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { TestContext } from 'node:test';

export type NameAnswer = {
  /** Addresses of both families; [] with a code of 0: the name exists, without addresses. */
  readonly addresses?: readonly string[];
  readonly ttlS?: number;
  /** 0 no error, 2 SERVFAIL, 3 NXDOMAIN, 5 REFUSED; `silent`: no answer. */
  readonly code?: number | 'silent';
  readonly delayMs?: number;
};

export type NameServer = {
  /** `address:port` */
  readonly address: string;
  /** Queried names, one entry per query. */
  readonly asked: string[];
  close(): void;
};

const nowhere: NameAnswer = { code: 3 };

/** `answer` returns the answer for a name; undefined: there is no such name. */
export async function startNameServer(
  answer: (name: string) => NameAnswer | undefined,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<NameServer> {
  const server = createSocket('udp4');
  const asked: string[] = [];
  const timers = new Set<NodeJS.Timeout>();
  server.on('message', (query, from) => {
    const end = query.indexOf(0, 12) + 5;
    const question = query.subarray(12, end);
    const name = nameIn(question).toLowerCase();
    asked.push(name);
    const { code = 0, delayMs = 0, ...found } = answer(name) ?? nowhere;
    if (code === 'silent') return;
    const type = question.readUInt16BE(question.length - 4);
    const records = recordsOf(found, type);
    const head = Buffer.alloc(12);
    head.writeUInt16BE(query.readUInt16BE(0), 0);
    head.writeUInt16BE(0x8180 | code, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(records.length, 6);
    const send = () =>
      server.send(Buffer.concat([head, question, ...records]), from.port, from.address);
    if (delayMs === 0) send();
    else timers.add(setTimeout(send, delayMs));
  });
  server.bind(port, host);
  await once(server, 'listening');
  return {
    address: `${host}:${server.address().port}`,
    asked,
    close: () => {
      for (const timer of timers) clearTimeout(timer);
      server.close();
    },
  };
}

/** The same; ends with the test. */
export async function nameServer(
  t: TestContext,
  answer: (name: string) => NameAnswer | undefined,
): Promise<NameServer> {
  const server = await startNameServer(answer);
  t.after(() => server.close());
  return server;
}

/** Returns the name of a query: labels, each after its length. */
function nameIn(question: Buffer): string {
  const labels: string[] = [];
  for (let at = 0; question[at]; at += 1 + (question[at] ?? 0)) {
    labels.push(question.toString('latin1', at + 1, at + 1 + (question[at] ?? 0)));
  }
  return labels.join('.');
}

function recordsOf({ addresses = [], ttlS = 1 }: NameAnswer, type: number): Buffer[] {
  const ofType = addresses.filter((address) => (address.includes(':') ? type === 28 : type === 1));
  return ofType.map((address) => {
    const data = address.includes(':')
      ? bytesOfIpv6(address)
      : Buffer.from(address.split('.').map(Number));
    const head = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length]);
    head.writeUInt32BE(ttlS, 6);
    return Buffer.concat([head, data]);
  });
}

/** Of an address with at most one `::`, without dots. */
function bytesOfIpv6(address: string): Buffer {
  const [left = '', right] = address.split('::');
  const words = (text = '') =>
    text
      .split(':')
      .filter(Boolean)
      .map((word) => Number.parseInt(word, 16));
  const [first, last] = [words(left), words(right)];
  const all = [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
  return Buffer.from(all.flatMap((word) => [word >> 8, word & 0xff]));
}
