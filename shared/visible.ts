/**
 * Text from peers and pages, for terminals and editors: characters that move a cursor, change the
 * direction of text, are invisible, or end a line, are escaped. Called wherever such text is
 * printed or written.
 * Source: Unicode Standard, 4.5 (categories Cc, Cf, Cs, Zl, Zp).
 */

const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const unseenInLines = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
/** JSON.stringify escapes the rest. */
const unseenInJson = /[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Returns the text as one line. */
export function visible(text: string): string {
  return text.replace(unseen, escaped);
}

/** The same for text whose own lines and columns stay. */
export function visibleLines(text: string): string {
  return text.replace(unseenInLines, escaped);
}

/** Returns JSON text with the same meaning. */
export function visibleJson(json: string): string {
  return json.replace(unseenInJson, escaped);
}

/** As in JSON: `\u001b`, and two of these beyond U+FFFF. */
function escaped(character: string): string {
  let text = '';
  for (let i = 0; i < character.length; i++) {
    text += `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`;
  }
  return text;
}
