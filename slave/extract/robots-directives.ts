/**
 * The directives of a page or its headers for crawlers: `<meta name="robots" content="noindex,
 * nofollow">` and `X-Robots-Tag: orbweaver: noindex`. Rules accumulate, and none cancels another:
 * the strictest counts. Rules with a value (`max-snippet: 20`) and unknown ones are ignored. Pure.
 * Source: Google Search Central, "Robots meta tag, data-nosnippet, and X-Robots-Tag"; MDN,
 * "X-Robots-Tag". There is no standard.
 */
import { type RobotsDirective, robotsDirectives } from '../../shared/crawl.ts';

/** Text beyond this is not read: no list of rules is that long. */
const ruleCharsMax = 4096;

const meanings: ReadonlyMap<string, readonly RobotsDirective[]> = new Map([
  ...robotsDirectives.map((name): [string, RobotsDirective[]] => [name, [name]]),
  ['none', ['noindex', 'nofollow']],
  ['nocache', ['noarchive']],
]);
const hasValue = /^(?:max-|unavailable_after$)/;

/** Returns whether rules under that name apply to all crawlers or to us. `token`: our name,
 *  lower-case. */
export function isForUs(name: string, token: string): boolean {
  const lower = name.trim().toLowerCase();
  return lower === 'robots' || lower === '*' || lower === token;
}

/** Add the directives of the content of a meta element. */
export function addDirectives(found: Set<RobotsDirective>, content: string): void {
  for (const rule of content.slice(0, ruleCharsMax).toLowerCase().split(','))
    for (const word of withoutValue(rule).split(/\s+/))
      for (const directive of meanings.get(word) ?? []) found.add(directive);
}

/** Add those of one X-Robots-Tag field: rules for all crawlers, and after `name:` for that
 *  crawler. */
export function addHeaderDirectives(
  found: Set<RobotsDirective>,
  field: string,
  token: string,
): void {
  let forUs = true;
  for (const rule of field.slice(0, ruleCharsMax).split(',')) {
    // A date has colons, too, but begins with a digit.
    const [, name, rest] = /^\s*([^\s\d:][^\s:]*)\s*:(.*)$/s.exec(rule) ?? [];
    const isName = name !== undefined && !hasValue.test(name.toLowerCase());
    if (isName) forUs = isForUs(name, token);
    if (forUs) addDirectives(found, isName ? (rest ?? '') : rule);
  }
}

/** In the order of `robotsDirectives`; undefined if there are none. */
export function listed(found: ReadonlySet<RobotsDirective>): RobotsDirective[] | undefined {
  return found.size === 0 ? undefined : robotsDirectives.filter((name) => found.has(name));
}

/** In `nofollow max-image-preview:none`, `none` applies to previews. */
function withoutValue(rule: string): string {
  const colon = rule.indexOf(':');
  if (colon < 0) return rule;
  const before = rule.slice(0, colon).trimEnd();
  return before.slice(0, Math.max(before.lastIndexOf(' '), 0));
}
