/**
 * What a fetch can come to. `ok` means that the answer is definite and is reported, be it a page
 * or a 404; what is not `ok` is given back and tried again. The rules of which is which are here,
 * and so is the translation of network errors to the kinds of PROTOCOL.md.
 */
import { STATUS_CODES } from 'node:http';
import type { FetchErrorKind } from '../../shared/protocol.ts';
import type { FetchErrorBody, Image, Result } from '../../shared/requests.ts';
import { LookupError } from '../../shared/resolver.ts';
import { BlockedError } from './guard.ts';
import { ProxyError } from './proxy-error.ts';
import type { SitemapBody } from './sitemap-body.ts';

export type FetchOutcome =
  | { ok: true; result: Result; images: Image[]; links: Uint8Array }
  | FailedOutcome;
/** `isPutOff`: a redirect cannot be followed for a while, which is nobody's failure. */
export type FailedOutcome = {
  ok: false;
  error: FetchErrorBody;
  retryAfterMs?: number;
  isPutOff?: true;
};

/** May a redirect be followed? `leave`: it is a link like any other. `later`: not in this fetch. */
export type Turn = 'go' | 'leave' | 'later';
/** Asks that for a canonical URL; settles when it is its turn. */
export type Follow = (url: string) => Promise<Turn>;

/** The same of a sitemap. */
export type SitemapOutcome = { ok: true; result: Result; sitemap: SitemapBody } | FailedOutcome;

const retryAfterMsMax = 86_400_000;

/** True if trying again later can help. Source: RFC 9110, 15. */
export function isTemporary(status: number): boolean {
  if (status === 408 || status === 425 || status === 429) return true;
  return status >= 500 && status !== 501 && status !== 505;
}

export function statusError(status: number): FetchErrorBody {
  return { kind: 'status', message: `${status} ${STATUS_CODES[status] ?? ''}`.trim() };
}

/** Retry-After in ms from `now` (epoch ms), at most a day. Source: RFC 9110, 10.2.3. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  const text = header?.trim() ?? '';
  if (/^[0-9]+$/.test(text)) return Math.min(Number(text) * 1000, retryAfterMsMax);
  // Date.parse takes many things for dates; a header that is one has a letter.
  const date = /^[A-Za-z]{3}/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(date)) return undefined;
  return Math.min(Math.max(date - now, 0), retryAfterMsMax);
}

/** What a look-up says, by its code; whatever else it says is of kind `dns` as well. */
const lookUps = new Map([
  ['ENOTFOUND', 'host not found'],
  ['ENODATA', 'host has no address'],
  ['EAI_AGAIN', 'name server does not answer'],
  ['ETIMEOUT', 'name server does not answer'],
  ['ECONNREFUSED', 'no name server'],
  ['ESERVFAIL', 'name server failed (SERVFAIL)'],
  ['EREFUSED', 'name server refused'],
]);
const causes = new Map<string, readonly [FetchErrorKind, string]>([
  ['ECONNREFUSED', ['connect', 'connection refused']],
  ['ECONNRESET', ['connect', 'connection reset']],
  ['EPIPE', ['connect', 'connection closed']],
  ['EHOSTUNREACH', ['connect', 'host unreachable']],
  ['ENETUNREACH', ['connect', 'network unreachable']],
  ['EADDRNOTAVAIL', ['connect', 'address not available']],
  ['UND_ERR_SOCKET', ['connect', 'connection closed']],
  ['ETIMEDOUT', ['timeout', 'connection timed out']],
  ['UND_ERR_CONNECT_TIMEOUT', ['timeout', 'connection timed out']],
  ['UND_ERR_HEADERS_OVERFLOW', ['too-large', 'headers longer than 32 KiB']],
  ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', ['protocol', 'body shorter than its content-length']],
]);
const tlsCode =
  /^(?:ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA|EPROTO)/;

/** Kind and one short line of whatever the HTTP client or zlib threw. */
export function fetchError(error: unknown): FetchErrorBody {
  if (error instanceof BlockedError || error instanceof ProxyError)
    return { kind: error.kind, message: error.message };
  const code = codeOf(error);
  const named = /^[A-Z][A-Z0-9_]{0,63}$/.test(code) ? `: ${code}` : '';
  if (error instanceof LookupError)
    return { kind: error.kind, message: lookUps.get(code) ?? `look-up failed${named}` };
  const [kind, message] = causes.get(code) ?? [];
  if (kind !== undefined && message !== undefined) return { kind, message };
  if (tlsCode.test(code)) return { kind: 'tls', message: `no secure connection${named}` };
  if (code.startsWith('HPE_')) return { kind: 'protocol', message: `malformed answer${named}` };
  if (code.startsWith('Z_') || code.startsWith('ERR_BROTLI') || code.startsWith('ERR__ERROR'))
    return { kind: 'protocol', message: `body cannot be decompressed${named}` };
  return { kind: /^E[A-Z]+$/.test(code) ? 'connect' : 'protocol', message: `failed${named}` };
}

function codeOf(error: unknown, depth = 0): string {
  if (typeof error !== 'object' || error === null || depth > 4) return '';
  if ('code' in error && typeof error.code === 'string') {
    // A socket error says more in its cause.
    const inner = 'cause' in error ? codeOf(error.cause, depth + 1) : '';
    return inner !== '' ? inner : error.code;
  }
  if ('errors' in error && Array.isArray(error.errors)) return codeOf(error.errors[0], depth + 1);
  return 'cause' in error ? codeOf(error.cause, depth + 1) : '';
}
