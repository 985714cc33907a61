/**
 * The image of the Dockerfile without an engine. It has the files that its COPY lines take through
 * .dockerignore, by our own reading and by buildah (which builds without a daemon; FROM scratch,
 * since tests have no base images); then the build in that tree, with the packages installed here;
 * and the tree of the last stage, from which the programs run.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { root } from './cluster.ts';

/** One stage: its folder, its copies, and its commands. */
type Stage = {
  readonly name: string;
  readonly workdir: string;
  readonly copies: readonly Copy[];
  readonly runs: readonly string[];
};
type Copy = {
  readonly from: string | undefined;
  readonly sources: string[];
  readonly target: string;
};

export function stagesOf(dockerfile: string): Stage[] {
  const stages: { name: string; workdir: string; copies: Copy[]; runs: string[] }[] = [];
  const lines = dockerfile.replace(/\\\n/g, ' ').split('\n');
  for (const line of lines) {
    const [, word = '', rest = ''] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
    const stage = stages.at(-1);
    if (word === 'FROM') {
      const name = /\sAS\s+(\S+)$/i.exec(rest)?.[1] ?? '';
      stages.push({ name, workdir: '/', copies: [], runs: [] });
    } else if (word === 'WORKDIR' && stage) stage.workdir = rest;
    else if (word === 'RUN') stage?.runs.push(rest);
    else if (word === 'COPY') {
      const [, from] = /--from=(\S+)/.exec(rest) ?? [];
      const paths = rest.split(/\s+/).filter((path) => !path.startsWith('--'));
      stage?.copies.push({ from, sources: paths.slice(0, -1), target: paths.at(-1) ?? '' });
    }
  }
  return stages;
}

export const hasBuildah = spawnSync('buildah', ['--version']).status === 0;

/** Returns the files that a stage copies of the context, by buildah. */
export function copiedByBuildah(stage: Stage, folder: string): string {
  const text = ['FROM scratch', `WORKDIR ${stage.workdir}`];
  for (const { from, sources, target } of stage.copies) {
    if (from === undefined) text.push(`COPY ${[...sources, target].join(' ')}`);
  }
  mkdirSync(folder);
  writeFileSync(join(folder, 'Dockerfile'), `${text.join('\n')}\n`);
  const store = ['--root', join(folder, 'root'), '--runroot', join(folder, 'run')];
  const output = join(folder, 'tree');
  const { status, stderr } = spawnSync(
    'buildah',
    [...store, '--storage-driver', 'vfs', 'bud', '--isolation', 'chroot', '--output', output]
      .concat(['--file', join(folder, 'Dockerfile'), '--ignorefile', join(root, '.dockerignore')])
      .concat(root),
    { encoding: 'utf8' },
  );
  assert.equal(status, 0, stderr);
  return join(output, stage.workdir);
}

/** The same by our own reading of .dockerignore: only names after a `!` are included. */
export function copiedByHand(stage: Stage, folder: string): string {
  const lines = readFileSync(join(root, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  assert.equal(lines[0], '*');
  const allowed = lines.slice(1).map((line) => {
    assert.match(line, /^![\w.-]+$/, 'only names at the root are read here');
    return line.slice(1);
  });
  const tree = join(folder, stage.workdir);
  for (const { from, sources, target } of stage.copies) {
    if (from !== undefined) continue;
    for (const source of sources) {
      assert.ok(allowed.includes(source.replace(/\/.*/, '')), `.dockerignore keeps ${source} out`);
      copy(join(root, source), target, tree);
    }
  }
  return tree;
}

/** Runs the commands of the build stage in `tree`, with the packages installed here. */
export function build(stage: Stage, tree: string, runtime: string): void {
  symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
  for (const run of stage.runs) {
    for (const command of run.split(/\s*&&\s*/)) {
      if (command.startsWith('npm ci')) continue;
      const here = command.replaceAll('/runtime', runtime);
      execFileSync('sh', ['-c', here], { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] });
    }
  }
}

/** Makes the last stage: its copies from the stage before, whose root is at `from`. */
export function assemble(stage: Stage, from: (path: string) => string, folder: string): string {
  const tree = join(folder, stage.workdir);
  for (const { sources, target, from: name } of stage.copies) {
    assert.ok(name !== undefined, 'it copies nothing of the context');
    for (const source of sources) copy(from(source), target, tree);
  }
  return tree;
}

/** As COPY has it: a folder's content, a file into a folder. */
function copy(source: string, target: string, workdir: string): void {
  const path = target.startsWith('/') ? target : join(workdir, target);
  const isInto = !statSync(source).isDirectory();
  const to =
    isInto && (target.endsWith('/') || target === '.') ? join(path, basename(source)) : path;
  mkdirSync(dirname(to), { recursive: true });
  cpSync(source, to, { recursive: true });
}

/** The files below a folder, by their paths in it. */
export function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
}
