/** The headers of a request, from what the crawl says and whom it is sent to. Pure. */
import type { FetchSpec, TaskRequest } from '../../shared/crawl.ts';
import { basicAuth } from './basic-auth.ts';
import { acceptedCodings, type Validators } from './content.ts';

type HeaderOptions = {
  readonly spec: FetchSpec;
  /** The host of a seed: it gets the headers of the crawl. */
  readonly open: boolean;
  readonly userAgent: string;
  readonly accept: string;
  /** Value of the Cookie header. */
  readonly cookie: string;
  readonly validators: Validators | undefined;
  /** Those of the request itself come before those of the crawl. */
  readonly own?: TaskRequest['headers'] | undefined;
};

/** Names and values in turn. */
export function requestHeaders(url: URL, options: HeaderOptions): string[] {
  const { spec, open, userAgent, accept, cookie, validators, own } = options;
  const headers = ['user-agent', userAgent, 'accept-encoding', acceptedCodings];
  const hasUser = url.username !== '' || url.password !== '';
  if (hasUser) headers.push('authorization', basicAuth(url));
  let accepts = false;
  for (const [name, value] of own ?? []) {
    accepts ||= /^accept$/i.test(name);
    headers.push(name, value);
  }
  for (const [name, value] of spec.headers) {
    if (own?.some(([one]) => one.toLowerCase() === name.toLowerCase())) continue;
    const isAuthorization = /^authorization$/i.test(name);
    if (isAuthorization && hasUser) continue;
    // Headers that the operator sends to its own sites are no matter of others.
    if (!open && (isAuthorization || spec.headersEverywhere !== true)) continue;
    accepts ||= /^accept$/i.test(name);
    headers.push(name, value);
  }
  if (!accepts) headers.push('accept', accept);
  if (cookie !== '') headers.push('cookie', cookie);
  if (validators?.etag) headers.push('if-none-match', validators.etag);
  if (validators?.lastModified) headers.push('if-modified-since', validators.lastModified);
  return headers;
}

/** Those of a request that says no more than which crawler asks. */
export function plainHeaders({ userAgent }: FetchSpec, accept: string): string[] {
  return ['user-agent', userAgent, 'accept', accept];
}
