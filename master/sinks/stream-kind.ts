/**
 * The sink of a program that reads the records of a crawl as they come: the one that has started
 * this master (`--stream`). It has no target of its own. A write is over when the program is done
 * with the records, so a slow program holds its crawl, and its cursor moves in the middle of a
 * write. Any other action on the crawl interrupts a write: a program may take any time.
 *
 * A crawl that has been read so is not written past its program: in a master without it the crawl
 * is held, until the operator gives the program up (`resume --new-files`).
 */
import { type SentSection, streamCharsMax, streamRecordsMax } from '../../shared/record-stream.ts';
import type { ProgramReader } from '../machine/program-reader.ts';
import { imageLinesOf, type Section } from '../store/result-rows.ts';
import { itemLinesOf, lineOf } from './result-lines.ts';
import {
  HeldError,
  InterruptedError,
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
  /** Of the crawl that it reads, also when that has got another name. */
  let uid: string | undefined;
  const isRead = (of: SinkCrawl) => (uid === undefined ? of.name === crawl : uid === uidOf(of));
  return {
    name: 'stream',
    isPatient: true,
    isPrompt: true,
    isWanted: (of, mark) => takenIn(mark) !== undefined || (reader !== undefined && isRead(of)),
    prepare: () => done,
    open(of, mark) {
      if (reader !== undefined && isRead(of)) {
        uid = uidOf(of);
        return Promise.resolve(new StreamSink(reader, of, mark));
      }
      if (takenIn(mark) === undefined) return Promise.resolve(new NoSink());
      const why = `a program reads the records of the crawl ${of.name}`;
      const how = 'run that program to go on (--new-files gives it up)';
      return Promise.reject(new HeldError(`${why}; ${how}`));
    },
    beginAnew: () => Promise.resolve({ mark: undefined, begun: [{ file: 'stream', ...nothing }] }),
    isTaken: () => Promise.resolve(false),
    rename: () => done,
    remove: () => Promise.resolve({ deleted: [], kept: [] }),
  };
}

const uidOf = ({ uid }: SinkCrawl) => Buffer.from(uid).toString('hex');
const done = Promise.resolve();
const nothing = { bytes: 0, lines: undefined, movedTo: undefined };

class StreamSink implements Sink {
  readonly cutBytes = 0;
  readonly #reader: ProgramReader;
  readonly #crawl: string;
  #taken: number;
  #isInterrupted = false;

  constructor(reader: ProgramReader, of: SinkCrawl, mark: unknown) {
    this.#reader = reader;
    this.#crawl = uidOf(of);
    this.#taken = takenIn(mark) ?? 0;
  }

  async write(records: readonly Section[], progress?: Progress): Promise<StreamMark> {
    const reader = this.#reader;
    const last = records.reduce((max, { seq, count }) => Math.max(max, seq + count - 1), 0);
    // Records that a failed write has sent are not sent again.
    const left = records.filter(({ seq, count }) => {
      const end = seq + count - 1;
      return end > this.#taken && end > reader.sent;
    });
    let next = 0;
    this.#isInterrupted = false;
    while (this.#taken < last) {
      // Records that the program has confirmed count, also when the write ends here.
      if (reader.taken > this.#taken) {
        this.#taken = reader.taken;
        if (this.#taken < last) await progress?.({ taken: this.#taken });
        continue;
      }
      if (reader.isClosed) throw new UnavailableError('the program that reads it has left');
      if (this.#isInterrupted) throw new InterruptedError('the program has not taken all');
      next = this.#send(left, next);
      await reader.beyond(this.#taken, () => this.#isInterrupted);
    }
    return { taken: this.#taken };
  }

  check(): Promise<void> {
    return done;
  }

  close(): Promise<void> {
    return done;
  }

  interrupt(): void {
    this.#isInterrupted = true;
    this.#reader.wake();
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
        const sent = sentOf(section, this.#taken);
        portion.push(sent);
        chars += sent[2].length;
        reader.sent = section.seq + section.count - 1;
      }
      if (portion.length === 0) return next;
      reader.send(this.#crawl, portion);
    }
  }
}

/** `taken`: what the program is done with, which may be in the middle. */
function sentOf(section: Section, taken: number): SentSection {
  const { kind, seq } = section;
  if (kind === 'item') {
    const first = Math.max(0, taken + 1 - seq);
    return [kind, seq + first, itemLinesOf(section, first)];
  }
  return [
    kind,
    seq,
    kind === 'image-url' ? imageLinesOf(section).toString('latin1') : lineOf(section),
  ];
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
