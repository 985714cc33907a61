// Text into the charsets of old pages. Node can only read them, so the tables are made by reading
// every two-byte code once and turning the answer round.

const windows1252 = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ';
const leads = {
  gb18030: [[0x81, 0xfe]],
  shift_jis: [
    [0x81, 0x9f],
    [0xe0, 0xfc],
  ],
};
const tables = new Map();

/** Bytes of `text`. Throws when the charset lacks a character: the site's own text is wrong. */
export function encode(text, charset) {
  switch (charset) {
    case 'utf-8':
      return Buffer.from(text);
    case 'utf-16le':
      return Buffer.from(`\ufeff${text}`, 'utf16le');
    case 'windows-1252':
      return Buffer.from([...text].map(windows1252Byte));
    default:
      return Buffer.concat([...text].map((character) => twoBytes(character, charset)));
  }
}

/** A query value as the URL Standard writes it on a page of that charset. */
export function encodeQuery(text, charset) {
  const letter = /[A-Za-z0-9]/;
  return [...encode(text, charset)]
    .map((byte) => {
      const character = String.fromCharCode(byte);
      const hex = byte.toString(16).toUpperCase().padStart(2, '0');
      return letter.test(character) ? character : `%${hex}`;
    })
    .join('');
}

function windows1252Byte(character) {
  const special = windows1252.indexOf(character);
  const byte = special < 0 ? character.charCodeAt(0) : 0x80 + special;
  if (byte > 0xff) throw new Error(`windows-1252 has no ${character}`);
  return byte;
}

function twoBytes(character, charset) {
  if (character.charCodeAt(0) < 0x80) return Buffer.from(character);
  const bytes = tableOf(charset).get(character);
  if (bytes === undefined) throw new Error(`${charset} has no ${character}`);
  return bytes;
}

function tableOf(charset) {
  const known = tables.get(charset);
  if (known !== undefined) return known;
  const table = new Map();
  const decoder = new TextDecoder(charset);
  for (const [first, last] of leads[charset]) {
    for (let lead = first; lead <= last; lead++) {
      for (let trail = 0x40; trail <= 0xfe; trail++) {
        const bytes = Buffer.from([lead, trail]);
        const character = decoder.decode(bytes);
        // Shift_JIS has some characters twice; the first code is the one that is written.
        if ([...character].length === 1 && !table.has(character)) table.set(character, bytes);
      }
    }
  }
  tables.set(charset, table);
  return table;
}
