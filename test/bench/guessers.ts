/**
 * Peers without the key beside honest ones: how long a client takes to join while others try
 * keys, over plain connections and over TLS, or connect and say nothing. The guessers share the
 * honest peer's address, or have one of their own.
 */
import { connect, parseAddress } from '../../shared/client.ts';
import { Cluster, Program } from '../support/cluster.ts';
import type { Guessing } from './guesser.ts';
import { anonymousBytes, count, cpuMs, median, pause, say } from './measure.ts';

const guesser = new URL('./guesser.js', import.meta.url).pathname;
const seconds = 12;
const perSecond = 2_000;

export async function guessers(): Promise<void> {
  for (const what of ['plain', 'tls', 'silent'] as const) {
    for (const from of ['127.0.0.1', '127.0.0.9']) await besideGuessers(what, from);
  }
}

async function besideGuessers(what: Guessing['what'], from: string): Promise<void> {
  await using cluster = new Cluster();
  const master = await cluster.master([]);
  const { host, port } = parseAddress(cluster.address);
  const guessing: Guessing = { host, port, from, what, perSecond, seconds };
  const program = new Program([guesser, JSON.stringify(guessing)]);
  await program.said(/ready/);
  const before = { bytes: anonymousBytes(master.pid), cpu: cpuMs(master.pid) };
  await pause(4_000); // by now wrong keys wait as long as they ever do
  const joins: number[] = [];
  let failed = 0;
  for (let i = 0; i < 20; i++) {
    const began = performance.now();
    try {
      const { authkey } = cluster;
      await (await connect({ host, port, authkey, tls: what === 'tls' })).close();
    } catch {
      failed++;
    }
    joins.push(performance.now() - began);
    if (performance.now() > began + 2_000) break;
    await pause(100);
  }
  const began = performance.now();
  const asked = await cluster.ask('status').then(
    () => `in ${(performance.now() - began).toFixed(0)} ms`,
    () => 'never',
  );
  const cpu = cpuMs(master.pid) - before.cpu;
  const bytes = anonymousBytes(master.pid) - before.bytes;
  await program.exited;
  const told = JSON.parse(program.stdout.split('\n').at(-2) ?? '{}') as {
    begun: number;
    sent: number;
  };
  say(
    `guessers, ${what}, ${from === '127.0.0.1' ? 'the same' : 'another'} address, ` +
      `${count(told.begun / seconds)} a second, ${count(told.sent)} answered: a client joins in ${median(joins).toFixed(0)} ms, ` +
      `slowest of ${joins.length} ${Math.max(...joins).toFixed(0)}, ${failed} failed ` +
      `(bar: ${from === '127.0.0.1' ? '1,000' : '100'}); status answers ${asked}; ` +
      `master ${(cpu / 1000).toFixed(1)} CPU s, +${(bytes / 1e6).toFixed(0)} MB`,
  );
}
