/**
 * The outcomes of a fetch. `ok` means that the answer is definite and is reported, for example a
 * page or a 404; otherwise the task is released and retried. This file has the rules for that, and
 * the translation of network errors to the kinds of PROTOCOL.md.
 */
import { STATUS_CODES } from 'node:http';
import type { FetchErrorKind } from '../../shared/protocol.ts';
import type { FetchErrorBody, Image, Result } from '../../shared/requests.ts';
import { LookupError } from '../../shared/resolver.ts';
import { lackOf } from '../lack.ts';
import { CodingError, fieldOf, type Headers } from './content.ts';
import { BlockedError } from './guard.ts';
import { ProxyError } from './proxy-error.ts';
import { MalformedError } from './response-head.ts';

export type FetchOutcome =
  | { ok: true; result: Result; images: Image[]; links: Uint8Array }
  | FailedOutcome;
/** `isPutOff`: it cannot be done for a while, which is not a failure: the host must not be asked,
 *  or the slave is at fault. `isFinal`: no further attempt can help. */
export type FailedOutcome = {
  ok: false;
  error: FetchErrorBody;
  retryAfterMs?: number;
  isPutOff?: true;
  isFinal?: true;
};

/** May a redirect be followed? `leave`: it is a link like any other. `later`: not in this fetch. */
export type Turn = 'go' | 'leave' | 'later';
/** Asks whether a canonical URL may be requested; settles when it is its turn. */
export type Follow = (url: string) => Promise<Turn>;

const retryAfterMsMax = 86_400_000;

/** Returns whether a later retry can help. Source: RFC 9110, 15. */
export function isTemporary(status: number): boolean {
  if (status === 408 || status === 425 || status === 429) return true;
  return status >= 500 && status !== 501 && status !== 505;
}

export function statusError(status: number): FetchErrorBody {
  return { kind: 'status', message: `${status} ${STATUS_CODES[status] ?? ''}`.trim() };
}

/** Retry-After in ms, at most a day. A date counts from the answer's own Date, if it has one: the
 *  clock of this machine (`now`, epoch ms) may differ. Source: RFC 9110, 10.2.3 and 6.6.1. */
export function retryAfterMs(headers: Headers, now: number): number | undefined {
  const text = fieldOf(headers, 'retry-after')?.trim() ?? '';
  if (/^[0-9]+$/.test(text)) return Math.min(Number(text) * 1000, retryAfterMsMax);
  const until = dateMs(text);
  if (until === undefined) return undefined;
  const sent = dateMs(fieldOf(headers, 'date')?.trim() ?? '') ?? now;
  return Math.min(Math.max(until - sent, 0), retryAfterMsMax);
}

/** An HTTP date in epoch ms. Source: RFC 9110, 5.6.7: the form without a zone is in GMT, too. */
function dateMs(text: string): number | undefined {
  // Date.parse accepts many texts as dates; a real date header has letters.
  if (!/^[A-Za-z]{3}/.test(text)) return undefined;
  const ms = Date.parse(/(?:[A-Z]|[+-]\d{4})$/i.test(text) ? text : `${text} GMT`);
  return Number.isNaN(ms) ? undefined : ms;
}

/** Messages of look-up errors, by code; all other codes are of kind `dns`, too. */
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
  ['ERR_HTTP2_ERROR', ['protocol', 'malformed answer: no valid HTTP/2']],
  ['UND_ERR_HEADERS_OVERFLOW', ['too-large', 'headers longer than 64 KiB']],
  ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', ['protocol', 'body shorter than its content-length']],
]);
const tlsCode =
  /^(?:ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|HOSTNAME_MISMATCH|INVALID_CA|EPROTO)/;
/** Source: RFC 7301, 3.2. */
const otherProtocol = 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL';
const inflateCode = /^(?:Z_|ERR_BROTLI|ERR__ERROR|ZSTD_)/;
const endedCodes =
  /^(?:UND_ERR_SOCKET|UND_ERR_RES_CONTENT_LENGTH_MISMATCH|ECONNRESET|EPIPE|ERR_HTTP2_.*)$/;

/** Returns kind and one short line for any error of the HTTP client or zlib. */
function fetchError(error: unknown): FetchErrorBody {
  if (
    error instanceof BlockedError ||
    error instanceof ProxyError ||
    error instanceof MalformedError
  )
    return { kind: error.kind, message: error.message };
  if (error instanceof CodingError) return { kind: 'protocol', message: error.message };
  // Of undici's parser, for which V8 reserves 10 GiB of addresses.
  if (error instanceof RangeError && error.message.startsWith('WebAssembly'))
    return { kind: 'connect', message: 'the slave has no addresses for it: raise `ulimit -v`' };
  if (isCutOff(error) && innerCodeOf(error) === '') {
    return { kind: 'connect', message: 'connection closed' };
  }
  const code = innerCodeOf(error);
  const named = /^[A-Z][A-Z0-9_]{0,63}$/.test(code) ? `: ${code}` : '';
  if (error instanceof LookupError)
    return { kind: error.kind, message: lookUps.get(code) ?? `look-up failed${named}` };
  const [kind, message] = causes.get(code) ?? [];
  if (kind !== undefined && message !== undefined) return { kind, message };
  if (tlsCode.test(code)) return { kind: 'tls', message: `no secure connection${named}` };
  if (isUnreadable(error))
    return { kind: 'protocol', message: `malformed answer${reasonOf(error)}` };
  if (inflateCode.test(code))
    return { kind: 'protocol', message: `body cannot be decompressed${named}` };
  return { kind: /^E[A-Z]+$/.test(code) ? 'connect' : 'protocol', message: `failed${named}` };
}

/** Did undici's parser refuse the answer? Its errors of that kind have no code. An assertion of its
 *  own fails for a status below 100. */
function isUnreadable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'HTTPParserError') return !isCutOff(error);
  const code = innerCodeOf(error);
  if (code === 'ERR_ASSERTION' || code.startsWith('HPE_')) return true;
  return code === 'UND_ERR_SOCKET' && /^bad (?:response|upgrade)$/.test(error.message);
}

/** Did the connection end before the body did? It may have been broken: TLS has begun before the
 *  head of an answer. */
export function isCutOff(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'HTTPParserError') return error.message.includes('(Invalid EOF state)');
  const code = innerCodeOf(error);
  return (endedCodes.test(code) || tlsCode.test(code)) && !isUnreadable(error);
}

/** A kept connection ended before a byte of the answer: its host closed it as the request left, or
 *  said so by a 408. Or the host refused the request, or ended its session, by HTTP/2. Or it is not
 *  sure whose answer it is. */
export class StaleError extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
    this.name = 'StaleError';
  }
}

/** Of a kept connection on which the host waited for a request too long. Source: RFC 9110,
 *  15.5.9: the request may be sent again. */
export const requestTimeout = 408;
export function gaveUpWaiting(): StaleError {
  const error = new Error('the host no longer waited for a request');
  return new StaleError(Object.assign(error, { code: 'UND_ERR_SOCKET' }));
}

/** A request without an answer. `isUnreadable`: undici refused it, a lenient client may not.
 *  `isStale`: a new connection may have it. `isOtherProtocol`: the host speaks none of the versions
 *  of HTTP that were offered. `isFinal`: the next attempt will fail the same way.
 *  `isLack`: it says what this machine lacks for it, by no fault of the host. */
export type Failure = {
  readonly error: FetchErrorBody;
  readonly isUnreadable?: true;
  readonly isStale?: true;
  readonly isOtherProtocol?: true;
  readonly isFinal?: true;
  readonly isLack?: true;
};

/** The reason for an error, in words. `hasHead`: of one that came after the head of an answer.
 *  Before it, undici reports any malformed head with a length as a length that does not hold. */
export function failureOf(error: unknown, hasHead: boolean): Failure {
  if (error instanceof MalformedError || error instanceof CodingError) {
    return { error: fetchError(error), isFinal: true };
  }
  const lack = lackOf(innerCodeOf(error));
  if (lack !== undefined) return { error: { kind: 'connect', message: lack }, isLack: true };
  const isMisnamed = !hasHead && innerCodeOf(error) === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH';
  if (isMisnamed)
    return { error: { kind: 'protocol', message: 'malformed answer' }, isUnreadable: true };
  const isBroken = hasHead && tlsCode.test(innerCodeOf(error));
  const failure = { error: isBroken ? brokenTls(error) : fetchError(error) };
  if (error instanceof StaleError) return { ...failure, isStale: true };
  if (innerCodeOf(error) === otherProtocol) return { ...failure, isOtherProtocol: true };
  return isUnreadable(error) ? { ...failure, isUnreadable: true } : failure;
}

/** In the midst of an answer: unlike a handshake that fails, it need not come again. */
function brokenTls(error: unknown): FetchErrorBody {
  return { kind: 'connect', message: `connection broken: ${innerCodeOf(error)}` };
}

/** Returns the meaning of a decompression error after `bytes` of output: without any, the body does
 *  not have its declared coding, and will not at the next attempt. */
export function inflatingError(error: Error, bytes: number): Error {
  return bytes > 0 || error instanceof CodingError
    ? error
    : new CodingError(fetchError(error).message);
}

/** Returns llhttp's reason: one of its constant texts. */
function reasonOf(error: unknown): string {
  const [, reason] = /\(([A-Za-z0-9 :/'"`-]{1,100})\)$/.exec(String(error)) ?? [];
  return reason === undefined ? '' : `: ${reason}`;
}

function innerCodeOf(error: unknown, depth = 0): string {
  if (typeof error !== 'object' || error === null || depth > 4) return '';
  if ('code' in error && typeof error.code === 'string') {
    // The cause of a socket error has more detail.
    const inner = 'cause' in error ? innerCodeOf(error.cause, depth + 1) : '';
    return inner !== '' ? inner : error.code;
  }
  if ('errors' in error && Array.isArray(error.errors))
    return innerCodeOf(error.errors[0], depth + 1);
  return 'cause' in error ? innerCodeOf(error.cause, depth + 1) : '';
}
