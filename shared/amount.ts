/** Numbers with their nouns, for people. Pure. */

/** `1 page`, `2,000 pages`; `plural` if it is not the noun with an s. */
export function amount(count: number, noun: string, plural = `${noun}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? noun : plural}`;
}
