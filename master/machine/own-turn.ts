/**
 * Pieces of work that take some ms each: a turn of the event loop does one of them, so that
 * requests are served and timers run between two. Short ones, of which thousands may wait, share
 * turns.
 */
type Line = {
  readonly waiting: (() => void)[];
  /** No further piece begins in a turn in which they took so long. */
  readonly turnMsMax: number;
  isArmed: boolean;
};

const long: Line = { waiting: [], turnMsMax: 0, isArmed: false };
const short: Line = { waiting: [], turnMsMax: 4, isArmed: false };

/** Resolves in a turn in which no other such piece of work is done, in the order of the calls. */
export const ownTurn = (): Promise<void> => turnOf(long);

/** Resolves in a turn that has time for a short piece of work, in the order of the calls. */
export const shortTurn = (): Promise<void> => turnOf(short);

function turnOf(line: Line): Promise<void> {
  return new Promise((resolve) => {
    line.waiting.push(resolve);
    arm(line);
  });
}

function arm(line: Line): void {
  if (line.isArmed || line.waiting.length === 0) return;
  line.isArmed = true;
  // An immediate that is set within another runs in the next turn.
  setImmediate(() => void doSome(line));
}

async function doSome(line: Line): Promise<void> {
  const began = performance.now();
  do {
    line.waiting.shift()?.();
    // Its work is done before this goes on.
    await undefined;
  } while (line.waiting.length > 0 && performance.now() - began < line.turnMsMax);
  line.isArmed = false;
  arm(line);
}
