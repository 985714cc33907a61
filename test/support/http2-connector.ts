/** The slave's connector to hosts with HTTP/2 whose certificates are of an authority of a test. */
import { createSecureContext } from 'node:tls';
import { makeConnector } from '../../slave/fetch/connector.ts';
import { SessionRoom } from '../../slave/fetch/tls-sessions.ts';
import type { Authority } from './certificates.ts';

export function http2Connector(authority: Authority) {
  return makeConnector({
    timeoutMs: 20_000,
    http2: true,
    sessions: new SessionRoom().part(),
    context: createSecureContext({ ca: authority.cert }),
  });
}
