/** Values that are made when they are first read, because most runs read few of them. */

/** Returns an object with a value for each function, which is called once at most. */
export function lazily<T extends Readonly<Record<string, () => unknown>>>(
  makers: T,
): { readonly [K in keyof T]: ReturnType<T[K]> } {
  const made = {};
  for (const [name, make] of Object.entries(makers)) {
    Object.defineProperty(made, name, {
      configurable: true,
      enumerable: true,
      get: () => {
        const value = make();
        Object.defineProperty(made, name, { value, enumerable: true });
        return value;
      },
    });
  }
  return made as { readonly [K in keyof T]: ReturnType<T[K]> };
}
