/**
 * A page: HTML or XHTML is read for images and links while it arrives. The body of any other answer
 * is not read. Source: PROTOCOL.md, "task.report".
 */
import { isHtml, xhtml } from '../../shared/media-types.ts';
import { isPageStatus } from '../../shared/protocol.ts';
import { type Fetched, outcomeOf } from '../fetch/fetched.ts';
import type { FetchOutcome } from '../fetch/outcome.ts';
import { report } from '../statements.ts';
import type { Kind } from './kind.ts';
import { type Page, PageReader } from './page-body.ts';

type Head = Parameters<Kind['plan']['open']>[0];

/** A reader of a page; undefined: the answer is none. `isBare`: neither images nor links are
 *  wanted. */
export function openPage(head: Head, isBare = false): PageReader | undefined {
  const { url, status, essence, spec, charset, sniff, header } = head;
  if (!isPageStatus(status) || !(essence === undefined || isHtml(essence))) return undefined;
  const headers = {
    robots: header('x-robots-tag'),
    refresh: header('refresh')[0],
    links: header('link'),
  };
  const isPart = status === 206 && !isWhole(header('content-range').at(-1));
  const xml = essence === xhtml;
  return new PageReader({ url, spec, xml, charset, sniff, headers, isPart, isBare });
}

export const page: Kind<Page, Extract<FetchOutcome, { ok: true }>> = {
  needsLogin: true,
  plan: {
    accept: 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.5',
    type: 'text/html',
    open: (head) => openPage(head),
  },
  outcome: (fetched) => (fetched.kind === 'body' ? pageOf(fetched) : outcomeOf(fetched)),
  statements: (held, found) => [report(held, found)],
};

function pageOf({ result, body }: Extract<Fetched<Page>, { kind: 'body' }>): FetchOutcome {
  const { title, images, imagesCut, dataImages, links, linksCut } = body.extract;
  const { directives, nofollowed, refresh, canonical } = body.extract;
  return {
    ok: true,
    result: {
      ...result,
      charset: body.charset,
      ...(body.digest !== undefined && { digest: body.digest }),
      ...(title !== undefined && { title }),
      ...(body.cut && { cut: true }),
      ...(linksCut > 0 && { linksCut }),
      ...(imagesCut > 0 && { imagesCut }),
      ...(dataImages > 0 && { dataImages }),
      ...(directives !== undefined && { directives }),
      ...(nofollowed > 0 && { nofollowed }),
      ...(refresh !== undefined && { refresh }),
      ...(canonical !== undefined && { canonical }),
    },
    images,
    links,
  };
}

/** Does a Content-Range cover the whole body? Source: RFC 9110, 14.4. */
function isWhole(range: string | undefined): boolean {
  const [, last, size] = /^bytes 0-(\d{1,15})\/(\d{1,15})$/i.exec(range?.trim() ?? '') ?? [];
  return last !== undefined && Number(last) + 1 === Number(size);
}
