/**
 * The errors of Orbweaver, one class per *who must act*. Code compares `code`, never the message.
 * An error leaves the process as its code and one short line; stacks and paths stay inside.
 */

/** Codes of PROTOCOL.md, "Errors", are sent to peers; E_CLOSED, E_CONFIG and E_STORE stay in the
 *  process. */
export type ErrorCode =
  | 'E_AUTH'
  | 'E_BAD_FRAME'
  | 'E_BAD_REQUEST'
  | 'E_CLOSED'
  | 'E_CONFIG'
  | 'E_DRAINING'
  | 'E_LIMIT'
  | 'E_NO_CRAWL'
  | 'E_QUEUE_FULL'
  | 'E_STORE'
  | 'E_UNKNOWN_VERB'
  | 'E_VERSION';

export class OrbError extends Error {
  readonly code: ErrorCode;
  readonly retryable: boolean;

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; retryable?: boolean } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.name = new.target.name;
    this.code = code;
    this.retryable = options.retryable ?? false;
  }
}

/** The operator must act: one line that says what is wrong and what to do; exit code 2. */
export class ConfigError extends OrbError {
  constructor(message: string, cause?: unknown) {
    super('E_CONFIG', message, { cause });
  }
}

/** The authkey was refused: fatal for the connection; a slave exits 3 and does not retry. */
export class AuthError extends OrbError {
  constructor(message: string) {
    super('E_AUTH', message);
  }
}

/** The peer is broken: reply if possible, then close. */
export class ProtocolError extends OrbError {
  constructor(message: string, code: 'E_BAD_FRAME' | 'E_VERSION' = 'E_BAD_FRAME') {
    super(code, message);
  }
}

/** Only this request failed; the session goes on. */
export class CommandError extends OrbError {}

/** The connection ended or could not be made; the caller reconnects with back-off. */
export class ConnectionError extends OrbError {
  constructor(message: string, cause?: unknown) {
    super('E_CLOSED', message, { cause, retryable: true });
  }
}

/** The store failed: the master stops, a restart recovers. */
export class StoreError extends OrbError {
  /** There was no room on the disk. */
  readonly isFull: boolean;

  constructor(message: string, cause?: unknown, isFull = false) {
    super('E_STORE', message, { cause });
    this.isFull = isFull;
  }
}

/** Exit codes of both programs: a contract with scripts and supervisors. */
export const exitCodes = { done: 0, failed: 1, operator: 2, auth: 3, unanswered: 4 } as const;

/** Code a process should exit with after `error`. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof AuthError) return exitCodes.auth;
  if (error instanceof ConfigError) return exitCodes.operator;
  return exitCodes.failed;
}

/** The code of an error of Node, a system or a driver (`ENOENT`, `23505`); undefined: it has none. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Returns one line for people and logs, for any thrown value. */
export function messageOf(error: unknown): string {
  // Of a host with several addresses: Node's error for all of them has no message.
  if (error instanceof AggregateError && error.message === '' && error.errors.length > 0) {
    return messageOf(error.errors[0]);
  }
  return textOf(error).replace(/\s*\n\s*/g, ' ');
}

/** A program may throw what has no text, such as an object without a prototype. */
function textOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message || error.name : error);
  } catch {
    return `a thrown ${typeof error} without a text`;
  }
}
