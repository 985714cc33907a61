/** Limits of time for what a browser may never answer. */
import { AwakeTimer } from '../../shared/awake.ts';

const isLate = Symbol('late');

/** @throws Error it takes longer, or what `promise` throws */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  const end = await race(promise, ms);
  if (end === isLate) throw new Error('the browser does not answer');
  return end;
}

/** Undefined: it takes longer. @throws what `promise` throws */
export async function orLate<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  const end = await race(promise, ms);
  return end === isLate ? undefined : end;
}

/** Did it end well, or badly, within that time? */
export async function isDone(promise: Promise<unknown>, ms: number): Promise<boolean> {
  return (
    (await race(
      promise.catch(() => {}),
      ms,
    )) !== isLate
  );
}

async function race<T>(promise: Promise<T>, ms: number): Promise<T | typeof isLate> {
  // How it ends later is nobody's business.
  promise.catch(() => {});
  let timer: AwakeTimer | undefined;
  const late = new Promise<typeof isLate>((resolve) => {
    timer = new AwakeTimer(() => resolve(isLate), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer?.clear();
  }
}
