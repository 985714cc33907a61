/**
 * Pieces of work that take some ms each: a turn of the event loop does one of them, so that
 * requests are served and timers run between two. Short ones, of which thousands may wait, share
 * turns.
 */
const waiting: (() => void)[] = [];
const waitingShort: (() => void)[] = [];
/** No further short piece begins in a turn in which they took so long. */
const shortMsMax = 4;
let isArmed = false;
let isArmedShort = false;

/** Resolves in a turn in which no other such piece of work is done, in the order of the calls. */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    arm();
  });
}

/** Resolves in a turn that has time for a short piece of work, in the order of the calls. */
export function shortTurn(): Promise<void> {
  return new Promise((resolve) => {
    waitingShort.push(resolve);
    armShort();
  });
}

/** What is set within an immediate runs in the next turn. */
function arm(): void {
  if (isArmed || waiting.length === 0) return;
  isArmed = true;
  setImmediate(() => {
    isArmed = false;
    waiting.shift()?.();
    arm();
  });
}

function armShort(): void {
  if (isArmedShort || waitingShort.length === 0) return;
  isArmedShort = true;
  setImmediate(() => void doShort());
}

async function doShort(): Promise<void> {
  const began = performance.now();
  do {
    waitingShort.shift()?.();
    // Its work is done before this goes on.
    await undefined;
  } while (waitingShort.length > 0 && performance.now() - began < shortMsMax);
  isArmedShort = false;
  armShort();
}
