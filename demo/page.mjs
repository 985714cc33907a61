// One page of the demo site while it is being written. A link or an image is named by where it
// leads; the page turns that into the attribute's text in the wanted style and notes the target.
// So the truth about the site comes from the targets, never from resolving what was written.

/** Stands in a page's text for the host and port that it is asked under. */
export const hostMark = '{{host}}';

const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
export const escapeHtml = (text) => text.replace(/[&<>"]/g, (character) => escapes[character]);

export class Page {
  /** Canonical paths, or absolute URLs of other hosts, in the order of the page. */
  links = [];
  images = [];
  srcset = [];
  body = '';

  /** `path` is canonical, its query included. `declared` says where the charset stands. */
  constructor(path, title, { charset = 'utf-8', declared = 'header', base } = {}) {
    Object.assign(this, { path, title, charset, declared, base });
  }

  /** `as`: relative, root, absolute or hostless; `href` is text to write instead of it. */
  link(to, text, { as = 'relative', fragment = '', href } = {}) {
    this.links.push(to);
    return `<a href="${escapeHtml((href ?? this.#write(to, as)) + fragment)}">${text}</a>`;
  }

  area(to, text, circle) {
    this.links.push(to);
    const href = escapeHtml(this.#write(to, 'relative'));
    return `<area shape="circle" coords="${circle}" href="${href}" alt="${escapeHtml(text)}">`;
  }

  /** `candidates`: [target, descriptor] pairs of srcset. Without `to` there is no src. */
  image(to, alt, { as = 'relative', candidates = [], href, width = 240 } = {}) {
    if (to !== undefined) this.images.push(to);
    this.srcset.push(...candidates.map(([target]) => target));
    const set = candidates.map(([target, size]) => `${this.#write(target, as)} ${size}`).join(', ');
    return [
      '<img',
      to === undefined ? '' : ` src="${escapeHtml(href ?? this.#write(to, as))}"`,
      set === '' ? '' : ` srcset="${escapeHtml(set)}"`,
      ` width="${width}" alt="${escapeHtml(alt)}">`,
    ].join('');
  }

  #write(to, as) {
    if (/^[a-z]+:/.test(to)) return to;
    switch (as) {
      case 'root':
        return to;
      case 'absolute':
        return `http://${hostMark}${to}`;
      case 'hostless':
        return `//${hostMark}${to}`;
      default:
        return relative(this.base ?? this.path, to);
    }
  }
}

/** Text that leads from the page `from` to `to`; both canonical paths. */
function relative(from, to) {
  const here = from.replace(/\?.*/, '').split('/').slice(1, -1);
  const [path, ...query] = to.split('?');
  const there = path.split('/').slice(1);
  const name = there.pop();
  let shared = 0;
  while (shared < here.length && here[shared] === there[shared]) shared++;
  const steps = [...Array(here.length - shared).fill('..'), ...there.slice(shared), name];
  const text = steps.join('/');
  // An empty reference would mean the page itself, its query included.
  return (text === '' ? './' : text) + (query.length > 0 ? `?${query.join('?')}` : '');
}
