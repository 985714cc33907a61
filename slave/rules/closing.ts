/**
 * Which tags end which elements, for the tree of a page. The tree is that of libxml2's HTML parser,
 * and so of lxml: its users' XPaths then find the same. Pure tables.
 * Source: probed from lxml 4.9.2 (libxml2 2.9.14), a pair of tags each; HTML Standard, "Void
 * elements".
 */

/** Elements without content and end tag. */
export const voidElements: ReadonlySet<string> = new Set(
  (
    'area base basefont bgsound br col embed frame hr img input isindex keygen link meta param ' +
    'source track wbr'
  ).split(' '),
);

const blocks = 'dd dl dt form li';
const headings = 'fieldset form li p table';
/** By the open element: the start tags that end it. */
const endedBy: Record<string, string> = {
  a: 'a fieldset table td th',
  address: `${blocks} ul`,
  b: 'center p td th',
  big: 'p',
  caption: 'col colgroup tbody tfoot thead tr',
  colgroup: 'colgroup tbody tfoot thead tr',
  dd: 'dt',
  dir: 'dd dl dt form ul',
  dl: 'form li',
  dt: 'dd dl',
  font: 'center td th',
  form: 'form',
  ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((rank) => [`h${rank}`, headings])),
  head:
    'a abbr acronym address b bdo big blockquote body br center cite code dd dfn dir div dl dt em ' +
    'fieldset font form frameset h1 h2 h3 h4 h5 h6 hr i iframe img kbd li map menu ol p pre q s ' +
    'samp small span strike strong sub sup table tt u ul var',
  i: 'center p td th',
  legend: 'fieldset',
  li: 'li',
  menu: 'dd dl dt form ul',
  ol: 'form ul',
  option: 'optgroup option',
  p:
    'address blockquote caption center col colgroup dd dir div dl dt fieldset form frameset h1 ' +
    'h2 h3 h4 h5 h6 hr li menu ol p pre table tbody td tfoot th title tr ul',
  pre: 'dd dl dt fieldset form li table ul',
  s: 'p',
  small: 'p',
  span: 'td th',
  strike: 'p',
  tbody: 'tbody tfoot',
  td: 'tbody td tfoot th tr',
  tfoot: 'tbody',
  th: 'tbody td tfoot th tr',
  thead: 'tbody tfoot',
  title: 'frameset',
  tr: 'tbody tfoot tr',
  tt: 'p',
  u: 'p td th',
  ul: 'address form menu ol pre',
};
const ends = new Map(
  Object.entries(endedBy).map(([open, tags]) => [open, new Set(tags.split(' '))]),
);

/** Does the start tag `tag` end the open element `open`? */
export function endsBefore(open: string, tag: string): boolean {
  return ends.get(open)?.has(tag) === true;
}

const ranks = new Map([
  ['div', 150],
  ['td', 160],
  ['th', 160],
  ['tr', 170],
  ['thead', 180],
  ['tbody', 180],
  ['tfoot', 180],
  ['table', 190],
  ['head', 200],
  ['body', 200],
  ['html', 220],
]);

/** An end tag closes open elements up to its own, if none of them has a higher rank. */
export function rankOf(tag: string): number {
  return ranks.get(tag) ?? 100;
}

/** Tags that imply a head where none is, before a body. */
export const headTags: ReadonlySet<string> = new Set(
  'base link meta script style title'.split(' '),
);
/** Tags that imply neither head nor body. */
export const frameTags: ReadonlySet<string> = new Set(['noframes', 'frame', 'frameset']);

/** Attributes whose name is their value where they have none. */
export const booleanAttributes: ReadonlySet<string> = new Set(
  (
    'checked compact declare defer disabled ismap multiple nohref noresize noshade nowrap ' +
    'readonly selected'
  ).split(' '),
);
