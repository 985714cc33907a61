/** Limits of time for what a browser may never answer. */

/** @throws Error it takes longer, or what `promise` throws */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the browser does not answer')), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => {});
  }
}

/** Did it end well, or badly, within that time? */
export async function isDone(promise: Promise<unknown>, ms: number): Promise<boolean> {
  try {
    await within(
      promise.catch(() => {}),
      ms,
    );
    return true;
  } catch {
    return false;
  }
}

/** Undefined: it takes longer. @throws what `promise` throws */
export async function orLate<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  promise.catch(() => {});
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
