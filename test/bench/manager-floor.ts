/**
 * The least that a manager server in Node can cost: it shakes hands, lets proxies be made, and
 * answers every request with `None`, whatever it says. Nothing is kept, nothing is read but lengths.
 *
 *     node dist/test/bench/manager-floor.js     with the key in ORB_AUTHKEY
 */
import { createHmac, randomBytes } from 'node:crypto';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { PyTuple } from '../../master/python/pickle/values.ts';
import { returned } from '../../master/python/replies.ts';
import { encodeFrame } from '../../shared/frame.ts';

const key = process.env['ORB_AUTHKEY'] ?? '';
const none = returned(null, 3);
const digest = '{sha256}';
const text = (...parts: (string | Buffer)[]) =>
  encodeFrame(Buffer.concat(parts.map((part) => Buffer.from(part as string))));

function serve(socket: Socket): void {
  let step = 0;
  let held: Buffer = Buffer.alloc(0);
  const answer = (message: Buffer): Buffer | undefined => {
    step++;
    if (step === 1) return text('#WELCOME#');
    if (step === 2) {
      const challenge = message.subarray('#CHALLENGE#'.length);
      return text(digest, createHmac('sha256', key).update(challenge).digest());
    }
    if (step === 3) return undefined;
    const name = step === 4 ? /create.*?(\w+_queue)/s.exec(message.toString('latin1')) : null;
    if (name === null) return none;
    return returned(new PyTuple([name[1] ?? '', new PyTuple(['get', 'put', 'qsize'])]), 3);
  };
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    while (held.length >= 4 && held.length >= 4 + held.readInt32BE(0)) {
      const end = 4 + held.readInt32BE(0);
      const reply = answer(held.subarray(4, end));
      held = held.subarray(end);
      if (reply !== undefined) socket.write(reply);
    }
  });
  socket.write(text('#CHALLENGE#', digest, randomBytes(40)));
}

const server = createServer({ noDelay: true }, serve);
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`listens on 127.0.0.1:${port}\n`);
});
