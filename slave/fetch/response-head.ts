/**
 * Reads the head of an HTTP/1 response as browsers do, and rewrites it by the standard. It accepts
 * bare LF line ends, folded values, blanks before a colon, lines without one, control characters
 * and repeated equal lengths. It refuses heads that could be read in two ways, and answers that are
 * not HTTP/1. The new head always declares the end of its body, and that the connection closes
 * after it. Pure; called by the normal socket.
 * Source: RFC 9112, 2.2 to 6.3; RFC 9110, 5.5; Chromium, http_response_headers.cc, http_util.cc.
 */
import { isFieldName } from './content.ts';

/** An answer that must not be read. It will be the same the next time. */
export class MalformedError extends Error {
  readonly kind: 'protocol' | 'too-large';

  /** `reason`: one line of constant texts. */
  constructor(reason: string, kind: 'protocol' | 'too-large' = 'protocol') {
    super(kind === 'protocol' ? `malformed answer: ${reason}` : reason);
    this.name = 'MalformedError';
    this.kind = kind;
  }
}

type ResponseHead =
  /** 1xx: another head follows. */
  | { readonly kind: 'interim'; readonly isOdd: boolean }
  | {
      readonly kind: 'final';
      readonly isOdd: boolean;
      readonly bytes: Buffer;
      readonly isChunked: boolean;
    };

type Field = { readonly name: string; value: string };

const statusLine = /^HTTP\/([0-9](?:\.[0-9]{1,3})?)([ \t]+)([0-9]+)(?![0-9])(.*)$/i;
const strictVersion = /^(?:1\.[01])$/;
/** All but NUL, tab and line feed. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const controls = /[\x01-\x08\x0b-\x1f\x7f]/g;
/** Fields about the connection and the body, which are rewritten. */
const ownFields = /^(?:connection|keep-alive|proxy-connection|content-length|transfer-encoding)$/i;

/** Could these bytes, after blank lines, begin a status line? False as soon as they cannot. */
export function mayBeStatusLine(bytes: Uint8Array): boolean {
  const start = Buffer.from(bytes.subarray(0, 5)).toString('latin1').toUpperCase();
  return 'HTTP/'.startsWith(start);
}

/** Returns the error for an answer that begins with these bytes instead of a status line. */
export function notHttp(bytes: Uint8Array): MalformedError {
  const isIcy = Buffer.from(bytes.subarray(0, 4)).toString('latin1').toUpperCase() === 'ICY ';
  return new MalformedError(isIcy ? 'it speaks ICY, not HTTP' : 'no HTTP status line');
}

/** Reads one head, its empty last line included.
 *  @throws MalformedError */
export function readHead(head: Buffer): ResponseHead {
  if (head.includes(0)) throw new MalformedError('a NUL in its head');
  const text = head.toString('latin1');
  const lines = text.split('\n').map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
  let isOdd = /(?<!\r)\n/.test(text);
  const { status, isOdd: isOddLine } = readStatusLine(lines[0] ?? '');
  isOdd ||= isOddLine;
  if (status === 101) throw new MalformedError('it changes to another protocol unasked');
  // undici accepts any except 100.
  if (status < 200) return { kind: 'interim', isOdd: status === 100 || isOdd };
  const read = readFields(lines.slice(1));
  const framing = readFraming(read.fields);
  const kept = read.fields.filter(({ name }) => !ownFields.test(name));
  const said = kept.map(({ name, value }) => `${name}: ${value}\r\n`).join('');
  const own = `${framing.field}connection: close\r\n\r\n`;
  return {
    kind: 'final',
    isOdd: isOdd || read.isOdd || framing.isOdd,
    bytes: Buffer.from(`HTTP/1.1 ${status} \r\n${said}${own}`, 'latin1'),
    isChunked: framing.isChunked,
  };
}

function readStatusLine(line: string): { status: number; isOdd: boolean } {
  const [, version = '', blanks = '', digits = '', rest = ''] =
    statusLine.exec(line.replace(controls, ' ')) ?? [];
  if (version === '') throw new MalformedError('its status line cannot be read');
  const status = Number(digits);
  if (digits.length !== 3 || status < 100) {
    throw new MalformedError(`its status is ${digits.slice(0, 8)}`);
  }
  const isStrict =
    strictVersion.test(version) && blanks === ' ' && line.startsWith('HTTP') && !/^[^ ]/.test(rest);
  return { status, isOdd: !isStrict };
}

/** `lines`: the lines after the status line. */
function readFields(lines: readonly string[]): { fields: Field[]; isOdd: boolean } {
  const fields: Field[] = [];
  let isOdd = false;
  /** The field that a folded line continues; a dropped line drops its continuations, too. */
  let last: Field | undefined;
  for (const raw of lines) {
    if (raw === '') continue;
    // A lone CR counts as a blank, the other control characters as nothing.
    const line = raw.replace(/\r/g, ' ').replace(controls, '');
    isOdd ||= line !== raw;
    if (/^[ \t]/.test(line)) {
      isOdd = true;
      const more = trimBlanks(line);
      if (last !== undefined && more !== '') last.value += last.value === '' ? more : ` ${more}`;
      continue;
    }
    const colon = line.indexOf(':');
    const name = trimBlanks(line.slice(0, Math.max(colon, 0)));
    if (!isFieldName(name)) {
      isOdd = true;
      last = undefined;
      continue;
    }
    isOdd ||= name.length !== colon;
    last = { name, value: trimBlanks(line.slice(colon + 1)) };
    fields.push(last);
  }
  return { fields, isOdd };
}

/** Returns how the body ends: by its length, by its last chunk, or with the connection. */
function readFraming(fields: readonly Field[]): {
  field: string;
  isChunked: boolean;
  isOdd: boolean;
} {
  const codings = listOf(fields, 'transfer-encoding')
    .map((coding) => coding.toLowerCase())
    // Says that there is none.
    .filter((coding) => coding !== 'identity');
  const lengths = listOf(fields, 'content-length');
  const lengthFields = fields.filter(({ name }) => /^content-length$/i.test(name));
  if (codings.length > 0 && lengthFields.length > 0) {
    throw new MalformedError('Transfer-Encoding and Content-Length');
  }
  if (codings.length > 0) return readCodings(codings);
  const values = lengths.map((text) => (/^[0-9]{1,15}$/.test(text) ? Number(text) : undefined));
  if (new Set(values).size > 1) throw new MalformedError('several different Content-Lengths');
  const [length] = values;
  // Browsers ignore a length that is not a number: the body ends with the connection.
  if (length === undefined) return { field: '', isChunked: false, isOdd: lengthFields.length > 0 };
  const isOdd =
    lengthFields.length > 1 ||
    lengthFields[0]?.value !== lengths[0] ||
    fields.some(({ name }) => /^transfer-encoding$/i.test(name));
  return { field: `content-length: ${length}\r\n`, isChunked: false, isOdd };
}

/** As in browsers, chunks are undone wherever the list has them, and other codings are only named:
 *  whoever reads the body looks whether they are there. */
function readCodings(codings: readonly string[]): ReturnType<typeof readFraming> {
  const isChunked = codings.includes('chunked');
  const others = codings
    .filter((coding) => coding !== 'chunked')
    .map((coding) => (isFieldName(coding) ? coding : 'unknown'));
  return {
    field: `transfer-encoding: ${[...others, ...(isChunked ? ['chunked'] : [])].join(', ')}\r\n`,
    isChunked,
    isOdd: isChunked && codings.at(-1) !== 'chunked',
  };
}

/** Returns the members of a list field, from all its lines. */
function listOf(fields: readonly Field[], name: string): string[] {
  return fields
    .filter((field) => field.name.toLowerCase() === name)
    .flatMap(({ value }) => value.split(','))
    .map(trimBlanks)
    .filter((member) => member !== '');
}

/** Trims spaces and tabs, in linear time, unlike a regular expression. */
function trimBlanks(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isBlank(text.charCodeAt(from))) from++;
  while (from < to && isBlank(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
