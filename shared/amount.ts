/** Numbers with their nouns, for people. Pure. */

/** `1 page`, `2,000 pages`; `plural` if it is not the noun with an s. */
export function amount(count: number, noun: string, plural = `${noun}s`): string {
  return `${grouped(count)} ${count === 1 ? noun : plural}`;
}

/** 1234567.5 as `1,234,567.5`, with at most three digits of a fraction. The first call of
 *  `toLocaleString`, which says the same, takes 11 ms. */
export function grouped(value: number): string {
  const [whole = '', ...fraction] = String(Math.round(value * 1000) / 1000).split('.');
  return [whole.replaceAll(/\B(?=(?:\d{3})+$)/g, ','), ...fraction].join('.');
}
