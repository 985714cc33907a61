/**
 * Pieces of work that may take some ms each: a turn of the event loop does one of them, or several
 * that take little, so that requests are served and timers run between them.
 */
const waiting: (() => void)[] = [];
/** No further piece begins in a turn in which they took so long. */
const turnMsMax = 4;
let isArmed = false;

/** Resolves in a turn that has time for a piece of work, in the order of the calls. */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (!isArmed) arm();
  });
}

/** What is set within an immediate runs in the next turn. */
function arm(): void {
  isArmed = true;
  setImmediate(() => void doSome());
}

async function doSome(): Promise<void> {
  const began = performance.now();
  while (waiting.length > 0 && performance.now() - began < turnMsMax) {
    waiting.shift()?.();
    // Its work is done before this goes on.
    await undefined;
  }
  isArmed = false;
  if (waiting.length > 0) arm();
}
