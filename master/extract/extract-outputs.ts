/**
 * The outputs of an extraction. Each follows `items.jsonl` or `rejected.jsonl`, whose lines are
 * durable and never change, and has a cursor of its own beside the place in the archive:
 *
 *     lines of the file, from the cursor on --> sink --its mark--> cursor
 *
 * So an output that is added later gets all rows, and one that a kill leaves behind catches up.
 * The number of a line is that of its record.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import type { ItemRules } from '../../shared/items.ts';
import { asBegun, isSameTarget, type NamedOutput, outputText } from '../../shared/outputs.ts';
import type { Values } from '../../shared/rule-results.ts';
import { refuseMisplaced } from '../sinks/output-places.ts';
import type { OutputContext } from '../sinks/outputs/context.ts';
import type { Sink, SinkCrawl, SinkKind } from '../sinks/sink.ts';
import { outputKind } from '../sinks/sinks.ts';
import type { Section } from '../store/result-rows.ts';
import type { ExtractFiles, RowsName } from './extract-files.ts';

type Line = {
  readonly url: string;
  readonly rule: string;
  readonly item?: Values;
  readonly why?: string;
  readonly at: string;
};

type Follower = {
  readonly name: string;
  readonly output: NamedOutput;
  readonly of: RowsName;
  readonly kind: SinkKind;
  readonly file: FileHandle;
  sink: Sink | undefined;
  /** The rows that its sink has, or gathers. */
  given: { readonly lines: number; readonly bytes: number };
  /** Batches that it gathers: where each ends. */
  gathered: { readonly lines: number; readonly bytes: number }[];
};

const readBytes = 1 << 20;
const none = Buffer.alloc(0);
const lineFeed = 10;
const all = Number.POSITIVE_INFINITY;

type ExtractTarget = {
  /** `--as`: the folder of the rows, below `outFolder`. */
  readonly name: string;
  readonly outFolder: string;
  readonly items: ItemRules;
  /** Variables that the secrets of outputs are read from. */
  readonly env: OutputContext['env'];
};

export class ExtractOutputs {
  readonly #files: ExtractFiles;
  readonly #crawl: SinkCrawl;
  readonly #followers: Follower[] = [];

  private constructor(files: ExtractFiles, { name, items }: ExtractTarget) {
    this.#files = files;
    this.#crawl = { name, uid: files.uid, hasRules: true, spec: { fetch: { items } } };
  }

  /** @throws ConfigError an output cannot be used */
  static async open(
    outputs: readonly NamedOutput[],
    files: ExtractFiles,
    target: ExtractTarget,
  ): Promise<ExtractOutputs> {
    await refuseMisplaced(join(target.outFolder, target.name), outputs, false);
    const made = new ExtractOutputs(files, target);
    try {
      for (const output of outputs) await made.#follow(output, target);
      return made;
    } catch (error) {
      await made.close();
      throw error;
    }
  }

  /** Writes what the files have more than the outputs. `isLast`: nothing more comes for now.
   *  @throws ConfigError what was written until then counts */
  async write(isLast: boolean): Promise<void> {
    for (const follower of this.#followers) {
      await guarded(async () => {
        const sink = follower.sink ?? (await this.#open(follower));
        follower.sink = sink;
        // In the middle of a write only what a sink says itself is durable.
        const progress = (mark: unknown) => this.#reached(follower, mark, sink.reached ?? 0);
        const written = (mark: unknown) => this.#reached(follower, mark, sink.reached ?? all);
        for (let rows = await this.#next(follower); rows.length > 0; ) {
          await written(await sink.write(rows, progress));
          rows = await this.#next(follower);
        }
        if (isLast && follower.gathered.length > 0) await written(await sink.finish?.(progress));
      });
    }
  }

  /** Idempotent. */
  async close(): Promise<void> {
    for (const { sink, file } of this.#followers.splice(0)) {
      await sink?.close();
      await file.close();
    }
  }

  async #follow(given: NamedOutput, { outFolder, name: crawl, env }: ExtractTarget): Promise<void> {
    const { name } = given;
    const before = this.#files.outputs[name];
    const output = asBegun(given, before?.output);
    const of = output.records === 'rejected' ? 'rejected' : 'items';
    const path = this.#files.pathOf(of);
    const kind = outputKind(output, { folder: outFolder, env });
    const isKnown = before !== undefined && isSameTarget(before.output, output);
    if (!isKnown) await guarded(() => kind.prepare(crawl));
    else refuseOtherForm(before.output, output);
    const { lines, bytes } = isKnown ? before : { lines: 0, bytes: 0 };
    const mark = isKnown ? before.mark : undefined;
    await this.#files.reached(name, { output, lines, bytes, mark });
    const file = await open(path, 'r');
    const facts = { name, output, of, kind, file } as const;
    this.#followers.push({ ...facts, sink: undefined, given: { lines, bytes }, gathered: [] });
  }

  #open({ kind, name }: Follower): Promise<Sink> {
    return kind.open(this.#crawl, this.#files.outputs[name]?.mark);
  }

  /** Records for the next lines that it was not given. */
  async #next(follower: Follower): Promise<Section[]> {
    const { given, of, file } = follower;
    const left = this.#files.length(of) - given.bytes;
    if (left <= 0) return [];
    let text = none;
    for (let wanted = readBytes; text.lastIndexOf(lineFeed) < 0; wanted *= 2) {
      const buffer = Buffer.allocUnsafe(Math.min(wanted, left));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, given.bytes);
      text = buffer.subarray(0, bytesRead);
      if (bytesRead < wanted && text.lastIndexOf(lineFeed) < 0) {
        throw new ConfigError(
          `${this.#files.pathOf(of)} is not as extract left it; choose another --as`,
        );
      }
    }
    const end = text.lastIndexOf(lineFeed);
    const lines = text.toString('utf8', 0, end).split('\n');
    follower.given = { lines: given.lines + lines.length, bytes: given.bytes + end + 1 };
    follower.gathered.push(follower.given);
    return lines.map((line, i) => sectionOf(line, of, given.lines + i + 1));
  }

  /** Puts on record how far it is: its target has the lines up to `reached`. */
  async #reached(
    { name, output, gathered }: Follower,
    mark: unknown,
    reached: number,
  ): Promise<void> {
    const before = this.#files.outputs[name] ?? { lines: 0, bytes: 0 };
    const count = gathered.filter((batch) => batch.lines <= reached).length;
    const { lines, bytes } = gathered.splice(0, count).at(-1) ?? before;
    await this.#files.reached(name, { output, lines, bytes, mark });
  }
}

/** A file that is begun keeps its form, as in `spec-change.ts`. @throws ConfigError */
function refuseOtherForm(before: NamedOutput, output: NamedOutput): void {
  const isText = output.kind === 'csv' || output.kind === 'jsonl';
  if (!isText || isDeepStrictEqual(before, output)) return;
  throw new ConfigError(
    `the output ${outputText(output)} has begun with other options; name another file, or choose ` +
      'another --as',
  );
}

/** A line as a record for sinks. */
function sectionOf(line: string, of: RowsName, seq: number): Section {
  const { url, rule, item, why, at } = JSON.parse(line) as Line;
  const record = {
    url,
    depth: 0,
    at: Date.parse(at),
    rule,
    ...(item !== undefined && { item }),
    ...(why !== undefined && { why }),
  };
  const kind = of === 'items' ? 'item' : 'rejected';
  const place = { row: none, begin: 0, imagesBegin: 0, knownBegin: 0, end: 0 };
  return { kind, seq, count: 1, ...place, content: { record, reported: {} } };
}

/** Which outputs an extraction has, and which it leaves to the crawl, in words. */
export function outputsOfRows(outputs: readonly NamedOutput[]): {
  readonly outputs: readonly NamedOutput[];
  readonly left: readonly string[];
} {
  const isOfRows = ({ records }: NamedOutput) => records === 'items' || records === 'rejected';
  const others = outputs.filter((output) => !isOfRows(output));
  return {
    outputs: outputs.filter(isOfRows),
    left: others.map((output) => `${outputText(output)}, which is of ${output.records}`),
  };
}

/** The messages of its sinks to an operator of a master. */
async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(
      `${messageOf(error)} (of an extraction: run the same command again, or choose another --as)`,
      error,
    );
  }
}
