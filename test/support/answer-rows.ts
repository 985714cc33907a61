/** Answers in a row on kept connections, and readers of each, as a seed makes them. */
import { randomUint32s } from './random.ts';

export type RowAnswer = {
  readonly data: string;
  readonly parts: readonly Buffer[];
  /** The host ends the connection after it. */
  readonly end: 'kept' | 'closed' | 'reset';
  /** It ends before its last byte. */
  readonly isCut: boolean;
  /** The beginning of another answer comes with it: on a kept connection neither counts. */
  readonly isFollowed: boolean;
  /** The reader pauses at each piece, for so many ms. */
  readonly pauses: number | undefined;
  readonly aborts: 'at start' | 'at head' | 'at data' | undefined;
};

export function answerRow(seed: number): RowAnswer[] {
  const next = randomUint32s(seed);
  const below = (n: number) => next() % n;
  const chance = (percent: number) => below(100) < percent;

  const chunked = (data: string): string => {
    let made = '';
    for (let at = 0; at < data.length; ) {
      const chunk = data.slice(at, at + 1 + below(chance(50) ? 9 : 9_000));
      const extension = chance(98) ? '' : ';a=b';
      made += `${chunk.length.toString(16)}${extension}\r\n${chunk}\r\n`;
      at += chunk.length;
    }
    return `${made}0\r\n${chance(95) ? '' : 'x: y\r\n'}\r\n`;
  };

  const answer = (): RowAnswer => {
    const size = chance(20) ? 0 : 1 + below(chance(5) ? 400_000 : 300);
    const data = `${seed} `.repeat(Math.ceil(size / 2)).slice(0, size);
    const way = below(10);
    const isOpenEnded = way === 0;
    const isKept = !isOpenEnded && chance(80);
    const fields = [chance(90) ? 'a: b' : 'Upgrade: x\r\nConnection: upgrade'];
    if (way > 5) fields.push('Transfer-Encoding: chunked');
    else if (!isOpenEnded) fields.push(`Content-Length: ${size}`);
    if (!isKept && (!isOpenEnded || chance(50))) fields.push('Connection: close');
    const version = isOpenEnded && chance(50) ? '1.0' : '1.1';
    const lead = chance(97) ? '' : 'HTTP/1.1 103 Wait\r\n\r\n';
    const head = `${lead}HTTP/${version} 200 OK\r\n${fields.join('\r\n')}\r\n\r\n`;
    const all = Buffer.from(head + (way > 5 ? chunked(data) : data));
    const isCut = chance(8);
    const isSplit = chance(50);
    // Bytes after an answer come with its end: else it could be that of the next request.
    const more =
      isCut || isSplit || isOpenEnded || size > 300 || chance(80) ? '' : 'HTTP/1.1 200 OK\r\n';
    const sent = Buffer.concat([all, Buffer.from(more)]);
    const bytes = isCut ? all.subarray(0, below(all.length)) : sent;
    const parts: Buffer[] = [];
    for (let at = 0; at < bytes.length; ) {
      const length = isSplit && parts.length < 30 ? 1 + below(chance(50) ? 5 : 500) : bytes.length;
      parts.push(bytes.subarray(at, at + length));
      at += length;
    }
    const end = isCut && chance(50) ? 'reset' : isKept && !isCut ? 'kept' : 'closed';
    const pauses = chance(50) ? undefined : below(3);
    const stops = ['at start', 'at head', 'at data'] as const;
    const aborts = chance(90) ? undefined : stops[below(3)];
    return { data, parts, end, isCut, isFollowed: more !== '', pauses, aborts };
  };
  return Array.from({ length: 1 + below(6) }, answer);
}
