/**
 * The browser of `try`, for one page: found as a slave finds its own, and ended after the page.
 */
import type { FetchSpec } from '../shared/crawl.ts';
import { ConfigError } from '../shared/errors.ts';
import { makeLog } from '../shared/log.ts';
import type { Render } from '../shared/render.ts';
import { AddressCache } from '../shared/resolver.ts';
import { Browsers } from './browser/browsers.ts';
import type { WebDocument } from './browser/page-traffic.ts';
import type { RenderEnd } from './browser/rendering.ts';
import { browserSettings } from './options.ts';

type Wanted = {
  readonly document: WebDocument;
  readonly spec: FetchSpec;
  readonly render: Render;
  readonly blocks: readonly string[];
  /** Fetches another document of the same site. Undefined: it may not be had. */
  readonly fetchDocument: (url: string) => Promise<WebDocument | string | undefined>;
};

/** Shows a page in the browser. `missing`: there is none, and why. */
export async function renderOnce(
  { document, spec, render, blocks, fetchDocument }: Wanted,
  env: NodeJS.ProcessEnv,
): Promise<Exclude<RenderEnd, { kind: 'given-back' }> | { kind: 'missing'; why: string }> {
  const said: string[] = [];
  const write = (line: string) => {
    const { msg } = JSON.parse(line) as { msg?: string };
    said.push(String(msg).replace(/^no browser: /, ''));
  };
  const missing = () => ({ kind: 'missing' as const, why: said[0] ?? 'the browser ended' });
  const log = makeLog({ level: 'warn', json: true, write });
  let browsers: Browsers | undefined;
  try {
    const isSandboxed = !/^(1|true|yes)$/i.test(env['ORB_NO_SANDBOX'] ?? '');
    const settings = browserSettings(env['ORB_BROWSER_PROGRAM'], isSandboxed, env);
    const addresses = new AddressCache();
    browsers = await Browsers.open(settings, { addresses, slots: 1, onAble: () => {}, log });
    await browsers?.started;
    if (browsers?.isAble !== true) return missing();
    const end = await browsers.render({
      document,
      spec,
      render,
      blocks,
      fetchDocument,
      userAgent: spec.userAgent,
      cookies: [],
      signal: new AbortController().signal,
      headersFor: ({ origin }) => (origin === new URL(document.url).origin ? spec.headers : []),
    });
    return end.kind === 'given-back' ? missing() : end;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { kind: 'missing', why: error.message };
  } finally {
    await browsers?.close();
  }
}
