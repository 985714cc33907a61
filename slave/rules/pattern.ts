/**
 * Patterns of rules, in time linear in the text, for any pattern and any text.
 * Source: https://github.com/google/re2/wiki/Syntax.
 */
import { RE2JS } from 're2js';
import { messageOf } from '../../shared/errors.ts';
import { RuleFault } from './fault.ts';

export class Pattern {
  readonly #pattern: RE2JS;

  /** @throws RuleFault it is not valid, with the reason */
  constructor(text: string) {
    try {
      this.#pattern = RE2JS.compile(text);
    } catch (error) {
      const hasLookaround = /\(\?<?[=!]/.test(text);
      const reason = hasLookaround
        ? 'it has no lookaround such as (?=a); put what is wanted into a group: x(a)'
        : messageOf(error).replace(/^.*?regexp: /, '');
      throw new RuleFault(`is not a pattern of RE2: ${reason.slice(0, 200)}`);
    }
  }

  /** Does it match anywhere? */
  isIn(text: string): boolean {
    return this.#pattern.matcher(text).find();
  }

  get hasGroup(): boolean {
    return this.#pattern.groupCount() > 0;
  }

  /** All matches: of each its first group, or the whole match if there is none. */
  all(text: string): string[] {
    const matcher = this.#pattern.matcher(text);
    const { hasGroup } = this;
    const found: string[] = [];
    while (matcher.find()) {
      const match = matcher.group(hasGroup ? 1 : 0);
      if (match !== null) found.push(match);
    }
    return found;
  }
}
