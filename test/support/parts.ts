/** The start of most end-to-end tests: a site and a cluster that end with their test. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type Resources, TestSite } from '../../selftest/site.ts';
import { exitCodes } from '../../shared/errors.ts';
import { Cluster, type Program } from './cluster.ts';

export async function siteFor(
  test: TestContext,
  resources: Resources,
  options: Parameters<typeof TestSite.start>[1] = {},
): Promise<TestSite> {
  const site = await TestSite.start(resources, options);
  test.after(() => site.close());
  return site;
}

/** Crawls to the end with `slaves` slaves; fails unless all programs exit with 0. */
export async function crawlToEnd(
  test: TestContext,
  seeds: readonly string[],
  options: {
    flags?: readonly string[];
    slaves?: number;
    slave?: readonly string[];
    env?: NodeJS.ProcessEnv;
    /** Of the master. */
    exitCode?: number;
  } = {},
): Promise<Cluster> {
  const cluster = new Cluster(test);
  const { flags = [], slaves: count = 1 } = options;
  // Seeds come when all slaves are there; otherwise the first could finish before the next joins.
  const isAlone = count === 1;
  const first = isAlone ? [...seeds, ...flags] : [];
  const master = await cluster.master([...first, '--exit-when-done']);
  const slaves = Array.from({ length: count }, () =>
    cluster.slave(options.slave, undefined, options.env ? { env: options.env } : {}),
  );
  if (!isAlone) {
    for (const slave of slaves) await slave.said(/joined/);
    await cluster.ask('add', ...seeds, ...flags);
  }
  await assertLeavesWith(options.exitCode ?? exitCodes.done, master);
  await assertLeaves(...slaves);
  return cluster;
}

/** Every program ends with exit code 0. */
export async function assertLeaves(...programs: readonly Program[]): Promise<void> {
  for (const program of programs) await assertLeavesWith(exitCodes.done, program);
}

/** It ends with this exit code. */
export async function assertLeavesWith(code: number, program: Program): Promise<void> {
  const exit = await program.exited;
  assert.deepEqual(exit, { code, signal: null }, program.output);
}
