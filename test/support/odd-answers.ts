/** Answers of hosts, from plain to broken, as bytes: what a seed makes of one that is right. */
import { randomUint32s } from './random.ts';

/** In the order in which the host sends them; after the last one it closes. */
type OddAnswer = { readonly parts: readonly Buffer[] };

export function oddAnswers(seed: number): () => OddAnswer {
  const next = randomUint32s(seed);
  const below = (n: number) => next() % n;
  const chance = (percent: number) => below(100) < percent;
  const one = <T>(list: readonly T[]): T => {
    const found = list[below(list.length)];
    if (found === undefined) throw new Error('an empty list');
    return found;
  };
  const text = (length: number) => {
    let made = '';
    for (let i = 0; i < length; i++) made += String.fromCharCode(97 + below(26));
    return made;
  };

  const body = () => (chance(15) ? '' : text(chance(10) ? 1 + below(60_000) : 1 + below(400)));

  const chunk = (data: string) => {
    const size = data.length.toString(16);
    const shown = chance(90)
      ? size
      : one([size.toUpperCase(), `000${size}`, ` ${size}`, `${size} `, `0x${size}`, `${size}g`]);
    const extension = chance(92) ? '' : one([';a=b', '; a="b"', ';', ';\t']);
    const end = chance(94) ? '\r\n' : one(['\n', '\r', '', 'x\r\n', '\r\nx']);
    const lineEnd = chance(96) ? '\r\n' : one(['\n', '\r', '']);
    return `${shown}${extension}${lineEnd}${data}${end}`;
  };

  const chunked = (data: string) => {
    let made = '';
    for (let at = 0; at < data.length; ) {
      const size = 1 + below(Math.max(1, Math.min(data.length - at, 5_000)));
      made += chunk(data.slice(at, at + size));
      at += size;
    }
    const last = chance(88)
      ? '0\r\n\r\n'
      : one(['0\r\n', '', '0\r\nx: y\r\n\r\n', '00\r\n\r\n', '0;a\r\n\r\n', '0\n\n', '0\r\n\n']);
    return made + last;
  };

  const fields = (length: number, isChunked: boolean) => {
    const list = [one(['Server: x', 'server:x', 'SERVER:   x', 'Content-Type: text/html'])];
    if (isChunked) {
      list.push(chance(90) ? 'Transfer-Encoding: chunked' : one(odd.codings));
    } else if (chance(88)) {
      const shown = chance(88) ? `${length}` : one([length + 1, length + 3, 0, `0${length}`]);
      list.push(`Content-Length: ${chance(95) ? shown : one(odd.lengths)}`);
    }
    for (let i = below(3); i > 0; i--) list.push(one(odd.plain));
    if (chance(30)) list.push(one(odd.connections));
    if (chance(20)) list.push(one(odd.lines));
    return list;
  };

  const answer = () => {
    const data = body();
    const isChunked = chance(45);
    const status = chance(85) ? one([200, 200, 200, 404, 301, 503]) : one(odd.statuses);
    const version = chance(93) ? 'HTTP/1.1' : one(odd.versions);
    const reason = chance(80) ? ' OK' : one(['', ' ', ' Not so\tfine', '  two', ' \xe4', 'OK']);
    const lineEnd = chance(97) ? '\r\n' : one(['\n', '\r\n\r\n', '\r']);
    const lines = [`${version} ${status}${reason}`, ...fields(data.length, isChunked)];
    const sent = isChunked ? chunked(data) : data + (chance(93) ? '' : text(1 + below(30)));
    return `${lines.join(lineEnd)}${lineEnd}${chance(98) ? lineEnd : ''}${sent}`;
  };

  return () => {
    let all = answer();
    if (chance(5))
      all = `HTTP/1.1 ${one([100, 102, 103])} Wait\r\n${one(['', 'a: b\r\n'])}\r\n${all}`;
    if (chance(8)) all = all.slice(0, below(all.length));
    if (chance(4)) {
      const at = below(all.length);
      all = all.slice(0, at) + String.fromCharCode(below(256)) + all.slice(at + 1);
    }
    const bytes = Buffer.from(all, 'latin1');
    const parts: Buffer[] = [];
    const isSplit = chance(60);
    for (let at = 0; at < bytes.length; ) {
      const size = isSplit ? 1 + below(chance(50) ? 12 : 2_000) : bytes.length;
      parts.push(bytes.subarray(at, parts.length < 40 ? at + size : bytes.length));
      at += parts.at(-1)?.length ?? 1;
    }
    return { parts };
  };
}

const odd = {
  statuses: [
    '200',
    '204',
    '204',
    '304',
    '304',
    '100',
    '101',
    '199',
    '205',
    '206',
    '600',
    '999',
    '000',
  ].concat(['20', '2000', 'abc', '-20', '']),
  versions: ['HTTP/1.0', 'HTTP/1.0', 'HTTP/1.2', 'http/1.1', 'HTTP/2', 'HTTP/1', 'ICY', 'SSH-2.0'],
  codings: [
    'chunked, chunked',
    'gzip, chunked',
    'Chunked',
    'identity',
    'gzip',
    ' chunked ',
    '',
  ].map((coding) => `transfer-encoding: ${coding}`),
  lengths: ['-1', '+5', '1e3', '99999999999999999999', '5, 5', '5 5', '', ' ', '0x10', '5\t'],
  plain: ['ETag: "a"', 'Set-Cookie: a=b', 'Set-Cookie: c=d; path=/', 'Vary: x', 'vary: y'].concat([
    'X-High: \xe4\xf6',
    'x-tab: a\tb',
    'Location: /there',
    'constructor: x',
    'toString: y',
  ]),
  connections: [
    'keep-alive',
    'Keep-Alive',
    'close',
    'Close',
    'upgrade',
    'keep-alive, x',
    'close, x',
    '',
  ]
    .map((option) => `Connection: ${option}`)
    .concat(['Keep-Alive: timeout=5', 'Keep-Alive: timeout=1', 'keep-alive: timeout=x, max=9']),
  lines: ['Upgrade: h2,h2c', 'Trailer: x', 'x-empty:', 'x-empty: ', 'x-blank: a ', 'x-blank : a']
    .concat([' folded', '\tfolded', 'no colon', ': no name', 'x-nul: \0', 'x-bell: \x07', 'x y: z'])
    .concat([
      '__proto__: x',
      'Proxy-Connection: close',
      'Content-Length: 5',
      'x-lf: a\nb',
      'x-cr: a\rb',
    ])
    .concat([
      'Transfer-Encoding: chunked',
      `x-long: ${'y'.repeat(20_000)}`,
      `x-much: ${'z'.repeat(70_000)}`,
    ]),
};
