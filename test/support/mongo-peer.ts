/**
 * A stand-in for a MongoDB server, as far as an output without a key asks one: it answers messages
 * of the wire protocol from memory, and fails as a test wants. It shows how the driver reports a
 * fault, not how MongoDB has one. Source: mongodb.com/docs, "MongoDB Wire Protocol".
 */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { BSON, type Document } from 'mongodb';

const opMessage = 2013;
const opQuery = 2004;

type Peer = {
  readonly url: string;
  /** Documents of each collection, by `_id`. */
  readonly collections: ReadonlyMap<string, ReadonlyMap<string, Document>>;
  /** Called with each command: `lose` ends the connection in the place of an answer, a document is
   *  the answer; undefined: nothing is wrong. */
  fault: (name: string) => Document | 'lose' | undefined;
};

export async function mongoPeer(t: TestContext): Promise<Peer> {
  const collections = new Map<string, Map<string, Document>>();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
    let bytes = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      while (bytes.length >= 4 && bytes.length >= bytes.readInt32LE(0)) {
        const message = bytes.subarray(0, bytes.readInt32LE(0));
        bytes = bytes.subarray(message.length);
        const command = commandOf(message);
        const [name = ''] = Object.keys(command);
        const fault = peer.fault(name);
        if (fault === 'lose') socket.destroy();
        else socket.write(answerTo(message, fault ?? done(collections, name, command)));
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const peer: Peer = { url: `mongodb://127.0.0.1:${port}/db`, collections, fault: () => undefined };
  return peer;
}

/** A document, behind the head of the message; lists of documents may follow it. */
function commandOf(message: Buffer): Document {
  let at = message.readInt32LE(12) === opQuery ? message.indexOf(0, 20) + 9 : 21;
  const first = message.subarray(at, at + message.readInt32LE(at));
  const command = BSON.deserialize(first);
  at += first.length;
  while (at < message.length) {
    const end = at + 1 + message.readInt32LE(at + 1);
    const nameEnd = message.indexOf(0, at + 5);
    const list: Document[] = [];
    for (let from = nameEnd + 1; from < end; from += message.readInt32LE(from)) {
      list.push(BSON.deserialize(message.subarray(from, from + message.readInt32LE(from))));
    }
    command[message.toString('utf8', at + 5, nameEnd)] = list;
    at = end;
  }
  return command;
}

function answerTo(message: Buffer, answer: Document): Buffer {
  const isQuery = message.readInt32LE(12) === opQuery;
  const body = BSON.serialize(answer);
  const head = Buffer.alloc(isQuery ? 36 : 21);
  head.writeInt32LE(head.length + body.length, 0);
  head.writeInt32LE(message.readInt32LE(4), 8);
  head.writeInt32LE(isQuery ? 1 : opMessage, 12);
  if (isQuery) head.writeInt32LE(1, 32);
  return Buffer.concat([head, body]);
}

function done(
  collections: Map<string, Map<string, Document>>,
  name: string,
  command: Document,
): Document {
  const at = String(command[name]);
  const documents = collections.get(at) ?? new Map<string, Document>();
  collections.set(at, documents);
  if (/^(?:hello|ismaster)$/i.test(name)) {
    const versions = { minWireVersion: 0, maxWireVersion: 21 };
    return { ok: 1, helloOk: true, isWritablePrimary: true, ismaster: true, ...versions };
  }
  if (name === 'find') {
    const found = documents.get(String(command['filter']._id));
    const firstBatch = found === undefined ? [] : [found];
    return { ok: 1, cursor: { firstBatch, id: BSON.Long.ZERO, ns: `db.${at}` } };
  }
  if (name === 'insert') {
    const writeErrors: Document[] = [];
    for (const [index, document] of (command['documents'] as Document[]).entries()) {
      const id = String(document['_id']);
      if (documents.has(id)) writeErrors.push({ index, code: 11000, errmsg: 'E11000 duplicate' });
      else documents.set(id, document);
    }
    return { ok: 1, n: 0, ...(writeErrors.length > 0 && { writeErrors }) };
  }
  if (name === 'update') {
    const [{ q, u } = {}] = command['updates'] as Document[];
    const found = documents.get(String(q._id));
    const isIt = found !== undefined && found['seq'] === q.seq;
    if (isIt) Object.assign(found, u.$set);
    return { ok: 1, n: isIt ? 1 : 0, nModified: isIt ? 1 : 0 };
  }
  return { ok: 1 };
}
