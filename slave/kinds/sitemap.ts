/**
 * A sitemap, of any type: its URLs are reported in parts. `redirectedTo` reports a redirect out of
 * its origin. Source: PROTOCOL.md [T-20] [T-21].
 */
import { packValue } from '../../shared/frame.ts';
import { isPageStatus } from '../../shared/protocol.ts';
import type { Result } from '../../shared/requests.ts';
import { outcomeOf } from '../fetch/fetched.ts';
import { statement } from '../statements.ts';
import type { Kind } from './kind.ts';
import { emptySitemap, partsOf, type SitemapBody, SitemapBodyReader } from './sitemap-body.ts';

type SitemapFound = {
  readonly ok: true;
  readonly result: Result;
  readonly sitemap: SitemapBody;
};

/** Bytes of URLs, or of images, in one part of a sitemap: a fraction of a commit of the master. */
const partBytes = 128 << 10;

export const sitemap: Kind<SitemapBody, SitemapFound> = {
  plan: {
    accept: 'application/xml,text/xml;q=0.9,*/*;q=0.5',
    open: ({ status, spec, url, charset, onRoom, onEnough }) =>
      isPageStatus(status)
        ? new SitemapBodyReader(spec, { onRoom, onEnough }, { url, charset })
        : undefined,
  },
  outcome: (fetched) => {
    if (fetched.kind === 'body') {
      const { result, body } = fetched;
      const isCut = body.cut || result.incomplete;
      return { ok: true, result: isCut ? { ...result, cut: true } : result, sitemap: body };
    }
    const outcome = outcomeOf(fetched);
    return outcome.ok ? { ok: true, result: outcome.result, sitemap: emptySitemap } : outcome;
  },
  // In parts, so that no commit of the master's takes long. Until the last one has arrived the task
  // is open, and a slave that fetches it again reports the same.
  statements: ({ task, lease }, found) => {
    const { kind, urls, images } = found.sitemap;
    const end = { result: packValue(found.result), urls: urls.length, images: images.length };
    return partsOf(found.sitemap, partBytes).map((part, i, { length }) => {
      const body = { task, lease, kind, ...part, ...(i === length - 1 && { end }) };
      return statement('task.sitemap', body, part.urls.length + part.images.length);
    });
  },
};
