/** Properties that undici keeps on its sockets, under symbols of its own. Source: undici 7.30,
 *  lib/core/symbols.js. */

/** Returns what is there under a symbol of this description, if it is of that shape. Undefined:
 *  undici does not have the socket, or speaks another version of HTTP. */
export function undiciOwn<T>(
  socket: object,
  description: string,
  isShape: (value: object) => value is T & object,
): T | undefined {
  for (const symbol of Object.getOwnPropertySymbols(socket)) {
    if (symbol.description !== description) continue;
    const value: unknown = Reflect.get(socket, symbol);
    if (typeof value === 'object' && value !== null && isShape(value)) return value;
  }
  return undefined;
}
