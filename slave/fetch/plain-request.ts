/** Requests that are plain: a GET without a body or headers about the connection. Pure. */
import type { Asked } from './connection.ts';
import { isFieldName } from './content.ts';

/** Fields that say what undici says itself, or would change how it reads the answer. */
const connectionFields =
  /^(?:connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;
const unsafe = /[^\t\x20-\x7e\x80-\xff]/;
const unsafePath = /[^\x21-\xff]/;
/** Names that were found plain; those of operators are few. */
const plainNames = new Set<string>();

/** Otherwise undici says what is wrong with it, or sends it. */
export function isPlainRequest({ method, path, headers, body }: Asked): boolean {
  if (method !== 'GET' || (body !== undefined && body !== null)) return false;
  if (!path.startsWith('/') || unsafePath.test(path)) return false;
  if (headers === undefined || headers === null) return true;
  if (!Array.isArray(headers) || headers.length % 2 !== 0) return false;
  for (let i = 0; i < headers.length; i += 2) {
    const name: unknown = headers[i];
    const value: unknown = headers[i + 1];
    if (typeof name !== 'string' || typeof value !== 'string') return false;
    if (!isPlainName(name) || unsafe.test(value)) return false;
  }
  return true;
}

function isPlainName(name: string): boolean {
  if (plainNames.has(name)) return true;
  if (!isFieldName(name) || connectionFields.test(name)) return false;
  if (plainNames.size < 1_000) plainNames.add(name);
  return true;
}

/** Returns the request as undici writes it; its characters are Latin-1. */
export function requestHead(asked: Asked, host: string): string {
  let head = `GET ${asked.path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  const headers = Array.isArray(asked.headers) ? asked.headers : [];
  for (let i = 0; i + 1 < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${head}\r\n`;
}
