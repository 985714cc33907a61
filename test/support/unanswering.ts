/**
 * Hosts that never answer, any number of them: every address of 127/8 is this machine.
 *
 *     deaf     drops SYNs: the listener's process is stopped and its queue is full
 *     silent   accepts connections, and never says a word
 *     far      answers to the first packet of a connection late, and then never says a word
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { Worker } from 'node:worker_threads';

/** A port at which no host of 127/8 answers. */
export type Unanswering = { readonly port: number; close(): Promise<void> };

const listen = `
  const server = require('node:net').createServer();
  server.listen({ port: 0, host: '0.0.0.0', backlog: 1 }, () => {
    console.log(server.address().port);
  });`;
/** A connection over loopback that takes longer than this counts as failed. */
const connectMs = 300;

export async function deafPort(): Promise<Unanswering> {
  const child = spawn(process.execPath, ['-e', listen], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(line.toString());
  child.kill('SIGSTOP');
  const queued: Socket[] = [];
  for (let isFull = false; !isFull; ) {
    const socket = new Socket().on('error', () => {});
    queued.push(socket);
    isFull = !(await connects(socket, port));
  }
  return { port, close: () => ended(child, queued) };
}

export async function silentPort(): Promise<Unanswering> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    socket.resume();
  });
  server.listen({ port: 0, host: '0.0.0.0', backlog: 4096 });
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A listener whose thread accepts nothing for so long: its queue is full, so SYNs are dropped. */
const listenLate = `
  const { parentPort, workerData } = require('node:worker_threads');
  const server = require('node:net').createServer((socket) => {
    socket.on('error', () => {});
    parentPort.postMessage(socket.remotePort);
  });
  server.listen({ host: workerData.host, port: 0, backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, workerData.ms);
  });`;

/** A port of an address that answers after `ms`. `reached` resolves when a connection to it was
 *  accepted. */
export async function farPort(
  t: TestContext,
  host: string,
  ms: number,
): Promise<{ port: number; reached: Promise<void> }> {
  const worker = new Worker(listenLate, { eval: true, workerData: { host, ms } });
  const [port] = (await once(worker, 'message')) as [number];
  const queued = [0, 1].map(() => connect({ host, port }).on('error', () => {}));
  t.after(async () => {
    for (const socket of queued) socket.destroy();
    await worker.terminate();
  });
  await Promise.all(queued.map((socket) => once(socket, 'connect')));
  const own = new Set(queued.map(({ localPort }) => localPort));
  const reached = new Promise<void>((resolve) => {
    worker.on('message', (from: number) => {
      if (!own.has(from)) resolve();
    });
  });
  return { port, reached };
}

/** An address of its own for each number below 62,500: 127.`net`.x.y. */
export function loopbackAddress(net: number, i: number): string {
  return `127.${net}.${Math.floor(i / 250) + 1}.${(i % 250) + 1}`;
}

async function connects(socket: Socket, port: number): Promise<boolean> {
  socket.connect(port, '127.0.0.1');
  const ended = new AbortController();
  const timer = setTimeout(() => ended.abort(), connectMs);
  try {
    await once(socket, 'connect', { signal: ended.signal });
    return true;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

async function ended(child: ChildProcess, queued: readonly Socket[]): Promise<void> {
  for (const socket of queued) socket.destroy();
  child.kill('SIGKILL');
  await once(child, 'exit');
}
