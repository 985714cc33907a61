/** A user's program that crawls in a loop, as a process in an empty folder with the package. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Cluster, Program, root } from './cluster.ts';
import { gone, treeOf } from './process-tree.ts';

export type Printed = {
  kind: string;
  id: string;
  url: string;
  finalUrl?: string;
  rule?: string;
  item?: unknown;
  why?: string;
};

export class LoopFolder {
  readonly path: string;
  readonly #test: TestContext;
  #programs = 0;

  /** `installed`: a folder that has the package already. */
  constructor(test: TestContext, installed?: string) {
    this.#test = test;
    this.path = installed ?? new Cluster(test).folder;
    if (installed !== undefined) return;
    mkdirSync(join(this.path, 'node_modules'), { recursive: true });
    symlinkSync(root.slice(0, -1), join(this.path, 'node_modules/orbweaver'));
  }

  /** Runs a loop that prints each record as a line of JSON. `body` runs after that; `count` is the
   *  number of records so far. `before` runs first, and `more` are options as JavaScript. */
  run(
    seeds: unknown,
    {
      options = {},
      body = '',
      type = 'mjs',
      before = '',
      more = '',
    }: {
      options?: object;
      body?: string;
      type?: 'mjs' | 'cjs';
      before?: string;
      more?: string;
    } = {},
  ): LoopProgram {
    const file = join(this.path, `loop-${++this.#programs}.${type}`);
    const name = "'orbweaver'";
    const load =
      type === 'cjs' ? `const { crawl } = require(${name});` : `import { crawl } from ${name};`;
    const text = [
      load,
      "const { writeSync } = require('node:fs');",
      'const print = (text) => writeSync(1, text + "\\n");',
      "const waits = () => new Promise((go) => process.stdin.once('data', go));",
      'let count = 0;',
      `const options = { ...${JSON.stringify(options)} };`,
      before,
      more === '' ? '' : `Object.assign(options, { ${more} });`,
      'async function main() {',
      `  for await (const record of crawl(${JSON.stringify(seeds)}, options)) {`,
      '    count++;',
      '    print(JSON.stringify(record));',
      `    ${body}`,
      '  }',
      '}',
      "const fail = (error) => print('failed: ' + error.code + ' ' + error.message);",
      "main().then(() => print('over'), fail)",
      '  .finally(() => process.stdin.destroy());',
    ];
    const module = "import { createRequire } from 'node:module';";
    const required = 'const require = createRequire(import.meta.url);';
    writeFileSync(file, [...(type === 'mjs' ? [module, required] : []), ...text].join('\n'));
    const program = new LoopProgram([file], { cwd: this.path, stdin: 'pipe' });
    this.#test.after(() => program.end());
    return program;
  }
}

export class LoopProgram extends Program {
  /** It, its master and its slaves, as far as they were seen. */
  readonly seen = new Set<number>();

  /** Whole lines that were printed. */
  get records(): Printed[] {
    const lines = this.stdout.split('\n').slice(0, -1);
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Printed);
  }

  /** How the loop ended. */
  get word(): string {
    return this.stdout.split('\n').at(-2) ?? '';
  }

  /** Resolves when it has printed so many records; looks which processes there are. */
  async printed(count: number): Promise<void> {
    while (this.records.length < count) await this.grown();
    this.look();
  }

  look(): readonly number[] {
    const tree = treeOf(this.pid);
    for (const pid of tree) this.seen.add(pid);
    return tree;
  }

  /** Kills it, and waits until no process of it is left. */
  async end(): Promise<void> {
    if (this.isAlive) this.look();
    await this.kill('SIGKILL');
    await gone([...this.seen]);
  }
}
