/**
 * A process that tries keys at a steady rate, for the bench `guessers`: each connection waits for
 * its challenge, gives one wrong answer (in plain, or by TLS), and waits for the verdict.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { createConnection, type Socket } from 'node:net';
import { connect } from 'node:tls';

export type Guessing = {
  readonly host: string;
  readonly port: number;
  /** The address that they come from. */
  readonly from: string;
  readonly what: 'plain' | 'tls' | 'silent';
  readonly perSecond: number;
  readonly seconds: number;
};

const guessing = JSON.parse(process.argv[2] ?? '{}') as Guessing;
const { host, port, from, what, perSecond, seconds } = guessing;
const key = randomBytes(24);
let begun = 0;
let sent = 0;

function guess(): void {
  begun++;
  const socket = createConnection({ host, port, localAddress: from });
  socket.on('error', () => {});
  if (what === 'silent') sent++;
  else socket.once('data', (frame: Buffer) => answer(socket, frame));
}

function answer(socket: Socket, frame: Buffer): void {
  sent++;
  if (what === 'tls') {
    const secure = connect({
      socket,
      minVersion: 'TLSv1.3',
      ciphers: 'TLS_AES_128_GCM_SHA256',
      pskCallback: () => ({ psk: key.subarray(0, 32), identity: 'orbweaver 0123456789abcdef' }),
      checkServerIdentity: () => undefined,
    });
    secure.on('error', () => socket.destroy());
    return;
  }
  const mac = createHmac('sha256', key).update(frame.subarray(15)).digest();
  const reply = Buffer.concat([Buffer.from([0, 0, 0, 40]), Buffer.from('{sha256}'), mac]);
  socket.write(reply);
  socket.resume();
}

const since = performance.now();
console.log('ready');
const timer = setInterval(() => {
  const elapsed = performance.now() - since;
  if (elapsed > seconds * 1000) {
    clearInterval(timer);
    console.log(JSON.stringify({ begun, sent }));
    process.exit(0);
  }
  // Attempts that the machine had no time for are not made up later, all at once.
  const due = Math.min((elapsed / 1000) * perSecond - begun, perSecond / 20);
  for (let left = due; left > 0; left--) guess();
}, 5);
