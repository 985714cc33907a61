/**
 * Matches a URL against many patterns, in time linear in its length for any patterns and any URL.
 * re2js compiles an RE2Set; this file runs its program as an automaton whose states are made when a
 * text first reaches them. A step is then one look-up in a table, and the first match ends the run.
 * RE2Set.match finds all matching patterns, and takes two to four times as long.
 *
 * A state is the set of possible next instructions, and the kind of the last character. All states
 * are dropped together when they exceed the limit, so that a hostile text costs time, in proportion
 * to the program, but no memory.
 * Source: Thompson, "Regular expression search algorithm" (1968); Cox, "Regular expression matching
 * can be simple and fast" (2007).
 */
import { RE2JSException, RE2Set } from 're2js';

/** Size of a state without its set and its row. */
const stateBytes = 128;
const chars = 128;

/** Instructions of RE2. Source: re2js, `Inst`. */
const op = { alt: 1, altMatch: 2, capture: 3, empty: 4, match: 6, nop: 7, rune: 8, runeAny: 11 };
/** Conditions of empty-width instructions. Source: re2js, `Utils`. */
const begin = 1 | 4;
const end = 2 | 8;
const boundary = 16;
const noBoundary = 32;

/** In a row of the table; further numbers are states. */
const unknown = 0;
const matched = 1;
const start = 2;

/** The kind of the previous character: first in a state's key. */
const before = { nothing: 0, other: 1, word: 2 } as const;

type Instruction = {
  readonly op: number;
  readonly out: number;
  readonly arg: number;
  readonly runes: ArrayLike<number>;
  matchRune(code: number): boolean;
};

export class Automaton {
  /** By instruction. */
  readonly #ops: Uint8Array;
  readonly #outs: Int32Array;
  readonly #args: Int32Array;
  /** The set of characters that it accepts: its row in `#members`. */
  readonly #takes: Int32Array;
  readonly #first: number;
  /** By set and class of characters. */
  readonly #members: Uint8Array;
  readonly #classOf: Uint8Array;
  readonly #isWord: readonly boolean[];
  /** One for each class, and one for the end of the text. */
  readonly #width: number;
  readonly #seen: Int32Array;
  #round = 0;
  readonly #next: Uint32Array;
  /** By state: its row of next states, and its set. */
  #table = new Int32Array(0);
  #keys: string[] = [];
  readonly #states = new Map<string, number>();
  #stateBytes = 0;
  readonly #bytesMax: number;
  #forgotten = -1;

  /** Returns RE2's objection to a pattern; undefined if it accepts it. */
  static problem(pattern: string): string | undefined {
    try {
      new RE2Set().add(pattern);
      return undefined;
    } catch (error) {
      if (error instanceof RE2JSException) return error.message.replace(/^.*?regexp: /, '');
      throw error;
    }
  }

  /** `bytesMax`: memory limit of its states.
   *  @throws RE2JSException a pattern is not valid in RE2 */
  constructor(patterns: readonly string[], bytesMax: number) {
    this.#bytesMax = bytesMax;
    const set = new RE2Set();
    for (const pattern of patterns) set.add(pattern);
    set.compile();
    const count = set.prog.numInst();
    this.#first = set.prog.start;
    this.#ops = new Uint8Array(count);
    this.#outs = new Int32Array(count);
    this.#args = new Int32Array(count);
    this.#takes = new Int32Array(count);
    this.#seen = new Int32Array(count);
    this.#next = new Uint32Array((count >>> 5) + 1);
    const sets = new CharacterSets();
    for (let pc = 0; pc < count; pc++) {
      const instruction: Instruction = set.prog.getInst(pc);
      this.#ops[pc] = Math.min(instruction.op, op.rune);
      this.#outs[pc] = instruction.out;
      this.#args[pc] = instruction.arg;
      if (instruction.op > op.runeAny) throw new Error(`RE2 instruction ${instruction.op}`);
      if (instruction.op >= op.rune) this.#takes[pc] = sets.add(instruction);
    }
    const { classOf, members, isWord } = sets.classes();
    this.#classOf = classOf;
    this.#members = members;
    this.#isWord = isWord;
    this.#width = isWord.length + 1;
    this.#forget();
  }

  /** How often its states exceeded the limit. */
  get forgotten(): number {
    return this.#forgotten;
  }

  /** Approximate size in memory. */
  get bytes(): number {
    return this.#ops.length * 18 + this.#members.length + this.#stateBytes;
  }

  /** `text` is a canonical URL: a character that is not printable ASCII counts as a control
   *  character. */
  matches(text: string): boolean {
    const classOf = this.#classOf;
    const width = this.#width;
    let table = this.#table;
    let state = start;
    for (let i = 0; i < text.length; i++) {
      const kind = classOf[Math.min(text.charCodeAt(i), chars - 1)] ?? 0;
      let next = table[state * width + kind];
      if (next === undefined || next === unknown) {
        next = this.#learn(state, kind);
        table = this.#table;
      }
      if (next === matched) return true;
      state = next;
    }
    const last = table[state * width + width - 1];
    return (last || this.#learn(state, width - 1)) === matched;
  }

  /** Returns the next state for a class of characters, and records it in the table. */
  #learn(state: number, kind: number): number {
    const key = this.#keys[state] ?? '';
    const isMatch = this.#step(key, kind);
    const next = isMatch ? matched : this.#stateOf(this.#takeKey(kind));
    // All states may have been dropped for it.
    if (this.#keys[state] === key) this.#table[state * this.#width + kind] = next;
    return next;
  }

  /** Puts the possible instructions after a character into `#next`; returns true if a pattern has
   *  matched before it. */
  #step(key: string, kind: number): boolean {
    const last = key.charCodeAt(0);
    const isEnd = kind === this.#width - 1;
    const isBoundary = (last === before.word) !== (this.#isWord[kind] === true);
    const holds =
      (last === before.nothing ? begin : 0) |
      (isEnd ? end : 0) |
      (isBoundary ? boundary : noBoundary);
    this.#round++;
    this.#next.fill(0);
    // A match may begin anywhere.
    const stack = [this.#first];
    for (let i = 1; i < key.length; i++) stack.push(key.charCodeAt(i));
    for (let pc = stack.pop(); pc !== undefined; pc = stack.pop()) {
      if (this.#seen[pc] === this.#round) continue;
      this.#seen[pc] = this.#round;
      const out = this.#outs[pc] ?? 0;
      const arg = this.#args[pc] ?? 0;
      switch (this.#ops[pc]) {
        case op.match:
          return true;
        case op.alt:
        case op.altMatch:
          stack.push(out, arg);
          break;
        case op.capture:
        case op.nop:
          stack.push(out);
          break;
        case op.empty:
          if ((arg & ~holds) === 0) stack.push(out);
          break;
        case op.rune: {
          const at = (this.#takes[pc] ?? 0) * this.#width + kind;
          const word = out >>> 5;
          if (this.#members[at] === 1)
            this.#next[word] = (this.#next[word] ?? 0) | (1 << (out & 31));
          break;
        }
        default: // fails
      }
    }
    return false;
  }

  /** Makes a key of `#next`: the previous character's kind, then the instructions in order. */
  #takeKey(kind: number): string {
    const codes: number[] = [this.#isWord[kind] === true ? before.word : before.other];
    for (let index = 0; index < this.#next.length; index++) {
      for (let bits = this.#next[index] ?? 0; bits !== 0; bits &= bits - 1) {
        codes.push(index * 32 + 31 - Math.clz32(bits & -bits));
      }
    }
    return String.fromCharCode(...codes);
  }

  #stateOf(key: string): number {
    const known = this.#states.get(key);
    if (known !== undefined) return known;
    const bytes = key.length * 2 + this.#width * 4 + stateBytes;
    if (this.#stateBytes + bytes > this.#bytesMax && this.#keys.length > start + 1) this.#forget();
    return this.#add(key, bytes);
  }

  #add(key: string, bytes: number): number {
    const state = this.#keys.push(key) - 1;
    this.#states.set(key, state);
    this.#stateBytes += bytes;
    const size = this.#keys.length * this.#width;
    if (size > this.#table.length) {
      const larger = new Int32Array(size * 2);
      larger.set(this.#table);
      this.#table = larger;
    }
    return state;
  }

  #forget(): void {
    this.#forgotten++;
    this.#states.clear();
    this.#stateBytes = 0;
    this.#table = new Int32Array(16 * this.#width);
    this.#keys = ['', ''];
    this.#add(String.fromCharCode(before.nothing), 0);
  }
}

/** The sets of characters of a program, and the classes of characters that no set separates. */
class CharacterSets {
  readonly #byRunes = new Map<string, number>();
  /** Repetitions share their sets. */
  readonly #byArray = new Map<ArrayLike<number>, string>();
  readonly #sets: boolean[][] = [];

  /** Returns the number of the set that an instruction accepts. */
  add(instruction: Instruction): number {
    const { runes } = instruction;
    const listed = this.#byArray.get(runes) ?? Array.from(runes).join();
    this.#byArray.set(runes, listed);
    const key = `${instruction.op} ${instruction.arg} ${listed}`;
    const known = this.#byRunes.get(key);
    if (known !== undefined) return known;
    const set = Array.from({ length: chars }, (_, code) => instruction.matchRune(code));
    this.#byRunes.set(key, this.#sets.push(set) - 1);
    return this.#sets.length - 1;
  }

  /** `members`: by set and class, in rows that have room for the end of the text. */
  classes(): { classOf: Uint8Array; members: Uint8Array; isWord: boolean[] } {
    const isWord = Array.from({ length: chars }, (_, code) => /\w/.test(String.fromCharCode(code)));
    const classOf = new Uint8Array(chars);
    // The first character of each class represents it.
    let firsts = [0];
    for (const set of [isWord, ...this.#sets]) {
      const parts = new Map<string, number>();
      firsts = [];
      for (let code = 0; code < chars; code++) {
        const part = `${classOf[code]} ${set[code]}`;
        const kind = parts.get(part) ?? firsts.push(code) - 1;
        parts.set(part, kind);
        classOf[code] = kind;
      }
    }
    const width = firsts.length + 1;
    const members = new Uint8Array(this.#sets.length * width);
    for (const [row, set] of this.#sets.entries()) {
      for (const [kind, code] of firsts.entries()) members[row * width + kind] = set[code] ? 1 : 0;
    }
    return { classOf, members, isWord: firsts.map((code) => isWord[code] === true) };
  }
}
