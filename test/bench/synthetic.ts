/** A master that synthetic slaves load, those slaves, and a client that feels how it answers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Cluster, Program } from '../support/cluster.ts';
import type { Load, Measured } from './synthetic-slave.ts';

export const hosts = 100;
const program = fileURLToPath(new URL('synthetic-slave.js', import.meta.url));

export const seeds = Array.from({ length: hosts }, (_, i) => `http://host-${i}.invalid/`);

/** `start`: what it crawls, URLs or a crawl file. */
export async function syntheticMaster(
  cluster: Cluster,
  flags: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
  start = seeds,
): Promise<Program> {
  const manners = ['--scope', 'any', '--ignore-robots', '--delay', '0', '--per-host', '10000'];
  return await cluster.master([...start, ...manners, ...flags], { env });
}

export async function synthetic(cluster: Cluster, options: Load): Promise<Measured> {
  const key = join(cluster.data, 'authkey');
  const args = [program, cluster.address, key, JSON.stringify(options)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  await once(child, 'close');
  return JSON.parse(output) as Measured;
}

/** Pings until `until` resolves; gives what they took, in ms, the shortest first. */
export async function pingsDuring(cluster: Cluster, until: Promise<unknown>): Promise<number[]> {
  const client = await cluster.connect();
  let isOver = false;
  const ended = until.finally(() => {
    isOver = true;
  });
  const times: number[] = [];
  while (!isOver) {
    const began = performance.now();
    await client.request('ping', {});
    times.push(performance.now() - began);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await ended;
  await client.close();
  return times.sort((a, b) => a - b);
}

export function at(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
