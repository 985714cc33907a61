/** Chunks of a body that are kept while more of it comes. The archive and charsets use it. */

/** A copy, if the chunk is a small part of what was read and would keep all of it in memory. */
export function heldOf(chunk: Uint8Array): Buffer {
  const { buffer, byteOffset, length } = chunk;
  return length * 2 >= buffer.byteLength
    ? Buffer.from(buffer, byteOffset, length)
    : Buffer.from(chunk);
}
