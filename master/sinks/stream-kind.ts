/**
 * The sink of a program that reads the records of a crawl as they come: the one that has started
 * this master (`--stream`). It has no target of its own. A write is over when the program is done
 * with the records, so a slow program holds its crawl, and its cursor moves in the middle of a
 * write.
 *
 * A crawl that has been read so is not written past its program: in a master without it the crawl
 * is held, until the operator gives the program up (`resume --new-files`).
 */
import { type SentSection, streamCharsMax, streamRecordsMax } from '../../shared/record-stream.ts';
import type { ProgramReader } from '../machine/program-reader.ts';
import { imageLinesOf, type Section } from '../store/result-rows.ts';
import { lineOf } from './result-lines.ts';
import {
  HeldError,
  type Progress,
  type Sink,
  type SinkCrawl,
  type SinkKind,
  UnavailableError,
} from './sink.ts';

/** The number of the last record that the program is done with. */
type StreamMark = { readonly taken: number };

/** Undefined: no program has read the crawl, or it was given up. */
const takenIn = (mark: unknown) => (mark as StreamMark | null | undefined)?.taken;

/** `crawl`: the one that the program reads; undefined: there is no program. */
export function streamKind(reader: ProgramReader | undefined, crawl: string): SinkKind {
  return {
    name: 'stream',
    isWanted: ({ name }, mark) =>
      takenIn(mark) !== undefined || (reader !== undefined && name === crawl),
    prepare: () => done,
    open(of, mark) {
      if (reader !== undefined && of.name === crawl) {
        return Promise.resolve(new StreamSink(reader, of, mark));
      }
      if (takenIn(mark) === undefined) return Promise.resolve(new NoSink());
      const why = `a program reads the records of the crawl ${of.name}`;
      const how = `run that program to go on, or give it up: \`resume ${of.name} --new-files\``;
      return Promise.reject(new HeldError(`${why}; ${how}`));
    },
    beginAnew: () => Promise.resolve({ mark: undefined, begun: [{ file: 'stream', ...nothing }] }),
    isTaken: () => Promise.resolve(false),
    rename: () => done,
    remove: () => Promise.resolve({ deleted: [], kept: [] }),
  };
}

const done = Promise.resolve();
const nothing = { bytes: 0, lines: undefined, movedTo: undefined };

class StreamSink implements Sink {
  readonly cutBytes = 0;
  readonly #reader: ProgramReader;
  readonly #crawl: string;
  #taken: number;

  constructor(reader: ProgramReader, { uid }: SinkCrawl, mark: unknown) {
    this.#reader = reader;
    this.#crawl = Buffer.from(uid).toString('hex');
    this.#taken = takenIn(mark) ?? 0;
  }

  async write(records: readonly Section[], progress?: Progress): Promise<StreamMark> {
    const reader = this.#reader;
    const last = records.reduce((max, { seq, count }) => Math.max(max, seq + count - 1), 0);
    // What a write that failed has sent is not sent again.
    const left = records.filter(({ seq, count }) => {
      const end = seq + count - 1;
      return end > this.#taken && end > reader.sent;
    });
    let next = 0;
    while (this.#taken < last) {
      if (reader.isClosed) throw new UnavailableError('the program that reads it has left');
      next = this.#send(left, next);
      await reader.beyond(this.#taken);
      if (reader.taken <= this.#taken) continue;
      this.#taken = reader.taken;
      if (this.#taken < last) await progress?.({ taken: this.#taken });
    }
    return { taken: this.#taken };
  }

  check(): Promise<void> {
    return done;
  }

  close(): Promise<void> {
    return done;
  }

  /** As many as the program may have before it; returns the index of the next one. */
  #send(records: readonly Section[], from: number): number {
    const reader = this.#reader;
    let next = from;
    while (true) {
      const portion: SentSection[] = [];
      let chars = 0;
      for (; next < records.length && chars < streamCharsMax; next++) {
        const section = records[next];
        if (section === undefined || reader.sent - this.#taken >= streamRecordsMax) break;
        const { kind, seq, count } = section;
        const text =
          kind === 'image-url' ? imageLinesOf(section).toString('latin1') : lineOf(section);
        portion.push([kind, seq, text]);
        chars += text.length;
        reader.sent = seq + count - 1;
      }
      if (portion.length === 0) return next;
      reader.send(this.#crawl, portion);
    }
  }
}

/** Of a crawl whose program was given up. */
class NoSink implements Sink {
  readonly cutBytes = 0;

  write(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  check(): Promise<void> {
    return done;
  }

  close(): Promise<void> {
    return done;
  }
}
