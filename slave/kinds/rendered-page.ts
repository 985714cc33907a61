/**
 * A page of a crawl that renders: read as always, and kept as it came, for the browser. The
 * browser's document is read in the same way. Source: PROTOCOL.md [T-140]; docs/browser.md.
 */
import { createHash } from 'node:crypto';
import { getDomain } from 'tldts';
import { archiveBytesMax } from '../../shared/archive.ts';
import type { FetchSpec } from '../../shared/crawl.ts';
import { isHtml, xhtml } from '../../shared/media-types.ts';
import { isPageStatus } from '../../shared/protocol.ts';
import { keepsView, type ViewName, viewPath } from '../../shared/render.ts';
import { canonicalUrl } from '../../shared/url.ts';
import type { WebDocument } from '../browser/page-traffic.ts';
import type { RenderedPage } from '../browser/rendering.ts';
import { fieldsOf } from '../fetch/content.ts';
import type { BodyReader } from '../fetch/fetch-plan.ts';
import type { FetchOutcome } from '../fetch/outcome.ts';
import type { View } from '../fetch/recording.ts';
import type { Evaluated } from '../rules/fit.ts';
import type { Kind } from './kind.ts';

type Body = { readonly inner: unknown; readonly bytes: Buffer | undefined };
type Found = Extract<FetchOutcome, { ok: true }> & {
  readonly document?: WebDocument;
  readonly views?: readonly View[];
};

/** `inner`: how such a page is read. */
export function renderedPage(inner: Kind): Kind<Body, Found> {
  const kind: Kind<Body, Found> = {
    needsLogin: true,
    plan: {
      ...inner.plan,
      open: (head) => {
        const reader = inner.plan.open(head);
        const { status, essence } = head;
        const isWhole = isPageStatus(status) && status !== 206;
        const isPage = isWhole && (essence === undefined || isHtml(essence));
        return reader && new KeepingReader(reader, isPage);
      },
    },

    outcome(fetched) {
      if (fetched.kind !== 'body') return inner.outcome(fetched) as Found;
      const { inner: body, bytes } = fetched.body;
      const found = inner.outcome({ ...fetched, body }) as FetchOutcome;
      if (!found.ok || bytes === undefined) return found;
      const { finalUrl, status } = fetched.result;
      const url = finalUrl.replace(/#.*/, '');
      return { ...found, document: { url, status, headers: fetched.headers, body: bytes } };
    },

    rulePage: (found) => inner.rulePage?.(found),
    webDocument: ({ document }) => document,
    isBare: ({ links, result }, made) =>
      leadsNowhere(links, result.finalUrl) && (result.nofollowed ?? 0) === 0 && !hasMade(made),
    reread: (found, page, spec) => reread(inner, found, page, spec),
    views: ({ views: seen = [] }) => seen,
    statements: (held, found, made) => inner.statements(held, found, made),
  };
  return kind;
}

/** A link to the page itself, as `#` is, leads nowhere. One to another site is what a shell says to
 *  readers without scripts, or a footer. */
function leadsNowhere(links: Uint8Array, url: string): boolean {
  if (links.length === 0) return true;
  const own = canonicalUrl(url);
  const site = siteOf(own?.hostname ?? '');
  const others = Buffer.from(links).toString('latin1').split('\n');
  return !others.some((link) => link !== own?.href && siteOf(new URL(link).hostname) === site);
}

function siteOf(hostname: string): string {
  return getDomain(hostname, { allowPrivateDomains: true }) ?? hostname;
}

function hasMade(made: Evaluated | undefined): boolean {
  if (made === undefined) return false;
  const { items, links, follow = [] } = made;
  return items.rows.length > 0 || links.length > 0 || follow.some(({ urls }) => urls.length > 0);
}

/** Reads what the browser made of the page. Undefined: it is no page any more. */
async function reread(
  inner: Kind,
  found: Found,
  page: RenderedPage,
  spec: FetchSpec,
): Promise<Found | undefined> {
  const { html, isXhtml, document, requests, missed, isCut, screenshot } = page;
  const { headers, status } = document;
  const isSame = document === found.document;
  const essence = isXhtml ? xhtml : 'text/html';
  const reader = inner.plan.open({
    status,
    essence,
    spec,
    charset: 'utf-8',
    sniff: false,
    url: baseOf(page),
    header: (name) => fieldsOf(headers, name),
    onRoom: () => {},
    onEnough: () => {},
  });
  if (reader === undefined) return undefined;
  const bytes = Buffer.from(html);
  const verdict = reader.write(bytes);
  const body = await reader.end();
  reader.close?.();
  if (body === undefined || verdict === 'not-html') return undefined;
  const seen = [
    ...(keepsView(spec, 'html') ? [viewOf('html', bytes.subarray(0, archiveBytesMax))] : []),
    ...(screenshot === undefined ? [] : [viewOf('screenshot', screenshot)]),
  ];
  // Its validators say nothing about what its scripts load.
  const { etag: _, lastModified: __, incomplete: ___, digest: ____, ...told } = found.result;
  const result = {
    ...told,
    ...(isSame ? {} : { finalUrl: document.url, status }),
    type: essence,
    bytes: reader.bytes,
    rendered: true,
    ...(requests > 0 && { requests }),
    ...(missed.length > 0 && { missed: [...missed] }),
    ...Object.assign({}, ...seen.map(namedBy)),
  };
  const again = inner.outcome({ kind: 'body', result, headers, body }) as FetchOutcome;
  if (!again.ok) return undefined;
  const links = withLinks(again.links, page.links);
  return { ...again, links, result: { ...again.result, ...(isCut && { cut: true }) }, views: seen };
}

function viewOf(view: ViewName, bytes: Buffer): View {
  return { view, bytes, digest: createHash('sha1').update(bytes).digest('hex') };
}

/** The fields of a result that name its file. */
function namedBy({ view, digest }: View): { digest: string } | { screenshot: string } {
  return view === 'html' ? { digest } : { screenshot: viewPath(view, digest) };
}

/** Links are relative to the URL that the page has now, as in a browser. */
function baseOf({ url, document }: RenderedPage): string {
  const now = canonicalUrl(url);
  return now?.origin === new URL(document.url).origin ? now.href : document.url;
}

function withLinks(links: Uint8Array, more: readonly string[]): Uint8Array {
  if (more.length === 0) return links;
  const joined = Buffer.from(more.join('\n'), 'latin1');
  return links.length === 0 ? joined : Buffer.concat([links, Buffer.from('\n'), joined]);
}

/** Keeps the bytes of a body, as far as they are read. */
class KeepingReader implements BodyReader<Body> {
  readonly #inner: BodyReader<unknown>;
  readonly #chunks: Buffer[] | undefined;

  constructor(inner: BodyReader<unknown>, isKept: boolean) {
    this.#inner = inner;
    this.#chunks = isKept ? [] : undefined;
  }

  get bytes(): number {
    return this.#inner.bytes;
  }

  write(chunk: Uint8Array): ReturnType<BodyReader<unknown>['write']> {
    this.#chunks?.push(Buffer.from(chunk));
    return this.#inner.write(chunk);
  }

  end(): Body | undefined | Promise<Body> {
    const body = this.#inner.end();
    if (body === undefined) return undefined;
    const bytes = this.#chunks && Buffer.concat(this.#chunks);
    if (body instanceof Promise) return body.then((inner) => ({ inner, bytes }));
    return { inner: body, bytes };
  }

  close(): void {
    this.#inner.close?.();
  }
}
