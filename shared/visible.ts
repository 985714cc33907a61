/**
 * Text of others, a peer's or a page's, where a terminal or an editor shows it: what moves a
 * cursor, turns the direction of text, hides, or ends a line, is written as an escape. Called by
 * whatever prints or writes such text.
 * Source: Unicode Standard, 4.5 (categories Cc, Cf, Cs, Zl, Zp).
 */

const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const unseenInLines = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
/** JSON.stringify escapes the rest. */
const unseenInJson = /[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** As one line, whatever it is. */
export function visible(text: string): string {
  return text.replace(unseen, escaped);
}

/** The same of text whose own lines and columns stay. */
export function visibleLines(text: string): string {
  return text.replace(unseenInLines, escaped);
}

/** JSON text that means the same. */
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
