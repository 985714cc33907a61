/**
 * SIGHUP: the terminal was closed. A program that has one ends in order. One that has none goes on:
 * `nohup` would have the signal ignored, which Node takes back at its start.
 */
import { isatty } from 'node:tty';

/** A shell and the kernel both send it: `end` is called once. */
export function onHangUp(end: () => void): void {
  process.on('SIGHUP', () => {});
  if ([0, 1, 2].some((stream) => isatty(stream))) process.once('SIGHUP', end);
}
