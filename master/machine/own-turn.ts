/**
 * Pieces of work that take some ms each: a turn of the event loop does one of them, so that
 * requests are served and timers run between two.
 */
const waiting: (() => void)[] = [];
let isArmed = false;

/** Resolves in a turn in which no other piece of work is done, in the order of the calls. */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    arm();
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
