/**
 * `--cookie` and `--cookie-file`: cookies that slaves send from the first request on. Those of
 * `--cookie` are for the hosts of the seeds; each of a file names its domain.
 * Source: curl, "HTTP Cookies" (the Netscape format); RFC 6265, 4.1.1.
 */
import { readFileSync, statSync } from 'node:fs';
import { InvalidArgumentError } from 'commander';
import type { GivenCookie } from '../../shared/crawl.ts';
import { messageOf } from '../../shared/errors.ts';
import { visible } from '../../shared/visible.ts';

const fileBytesMax = 1 << 20;
const httpOnly = '#HttpOnly_';
const shownChars = 60;

/** `NAME=VALUE`; one per line in the environment. */
export function cookiePairs(text: string, before: GivenCookie[] | undefined): GivenCookie[] {
  const given = text.split('\n').filter((line) => line.trim() !== '');
  const parsed = given.map((pair): GivenCookie => {
    const equals = pair.indexOf('=');
    if (equals < 1 || pair.includes(';')) throw new InvalidArgumentError('It must be NAME=VALUE.');
    return { name: pair.slice(0, equals).trim(), value: pair.slice(equals + 1).trim() };
  });
  return [...(before ?? []), ...parsed];
}

/** The cookies of a file, without those that have expired. Its contents never show in an error. */
export function cookieFile(path: string, now = Date.now()): GivenCookie[] {
  let text: string;
  try {
    const found = statSync(path);
    // A device may have no end.
    if (found.isCharacterDevice()) throw new InvalidArgumentError('It is not a file.');
    if (found.size > fileBytesMax) {
      throw new InvalidArgumentError(`It is larger than ${fileBytesMax >> 20} MiB.`);
    }
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw error;
    throw new InvalidArgumentError(`It cannot be read: ${messageOf(error)}.`);
  }
  const lines = text.replace(/^\ufeff/, '').split(/\r?\n/);
  const all = lines.flatMap((line, index) => {
    const isComment = line.startsWith('#') && !line.startsWith(httpOnly);
    return isComment || line.trim() === '' ? [] : [cookieIn(line, index + 1)];
  });
  const kept = all.filter(({ expiresAt }) => expiresAt === undefined || expiresAt > now);
  if (all.length === 0) throw new InvalidArgumentError('It holds no cookie.');
  if (kept.length === 0) throw new InvalidArgumentError('All of its cookies have expired.');
  return kept;
}

function cookieIn(line: string, number: number): GivenCookie {
  const bad = (why: string) => new InvalidArgumentError(`Line ${number} ${why}.`);
  const plain = line.startsWith(httpOnly) ? line.slice(httpOnly.length) : line;
  const [domain = '', tail = '', path = '', secure = '', expiry = '', name, value = '', ...rest] =
    plain.split('\t');
  if (name === undefined || rest.length > 0) {
    throw bad('does not have the seven fields, separated by tabs, of the Netscape format');
  }
  const host = hostOf(domain);
  if (host === undefined) {
    throw bad(`names no domain: "${visible(domain.slice(0, shownChars))}"`);
  }
  if (!/^(TRUE|FALSE)$/i.test(tail) || !/^(TRUE|FALSE)$/i.test(secure)) {
    throw bad('has neither TRUE nor FALSE in its second or fourth field');
  }
  if (!/^-?\d+(\.\d+)?$/.test(expiry)) throw bad('has no expiry time (in seconds, or 0)');
  if (!path.startsWith('/')) throw bad('has no path that begins with /');
  const seconds = Math.max(0, Math.floor(Number(expiry)));
  return {
    name,
    value,
    domain: host,
    path,
    ...(/^TRUE$/i.test(tail) && { subdomains: true }),
    ...(/^TRUE$/i.test(secure) && { secure: true }),
    ...(seconds > 0 && { expiresAt: Math.min(seconds * 1000, Number.MAX_SAFE_INTEGER) }),
  };
}

/** As a URL has it; undefined: it is not a host. */
function hostOf(domain: string): string | undefined {
  const text = domain.replace(/^\./, '');
  if (text === '' || /[/@?#\s\\]/.test(text) || !URL.canParse(`http://${text}/`)) return undefined;
  return new URL(`http://${text}/`).hostname;
}
