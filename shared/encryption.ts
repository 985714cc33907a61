/**
 * TLS 1.3 for a connection that the server has greeted in plain: the client, having read the
 * server's challenge, begins TLS, and everything from there on is inside it. The authkey is the
 * pre-shared key, together with an ephemeral key exchange, so that no certificate is needed and a
 * key that leaks later does not open recorded traffic. A server may also show a certificate to
 * clients that ask for one.
 * Source: PROTOCOL.md [K-1]..[K-7]; RFC 8446, sections 2.2 and 4.2.9 (psk_dhe_ke).
 */
import { createHmac, createPrivateKey, hkdfSync, X509Certificate } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import {
  type ConnectionOptions,
  connect,
  createSecureContext,
  type SecureContext,
  TLSSocket,
  type TLSSocketOptions,
} from 'node:tls';
import {
  AuthError,
  ConfigError,
  ConnectionError,
  messageOf,
  type OrbError,
  ProtocolError,
} from './errors.ts';

export type Encryption = {
  /** Makes a TLS socket of a plain one, which then carries only TLS. */
  begin(socket: Socket): TLSSocket;
  /** Returns why both sides did not agree on TLS; undefined for any other error. */
  explain(error: NodeJS.ErrnoException): OrbError | undefined;
};

/** Certificate and private key, both PEM. */
export type Certificate = { readonly cert: Buffer; readonly key: Buffer };

/** Both PEM. @throws ConfigError one is not valid, or they do not belong together. */
export function makeCertificate(cert: Buffer, key: Buffer): Certificate {
  const attempt = <T>(make: () => T, problem: string): T => {
    try {
      return make();
    } catch (error) {
      // OpenSSL's own messages ("no start line") do not help an operator.
      throw new ConfigError(problem, error);
    }
  };
  const first = attempt(() => new X509Certificate(cert), '--tls-cert is not a certificate (PEM)');
  const secret = attempt(
    () => createPrivateKey(key),
    '--tls-key is not a private key (PEM) without a passphrase',
  );
  if (!first.checkPrivateKey(secret)) {
    throw new ConfigError('--tls-key is not the key of the first certificate in --tls-cert');
  }
  attempt(
    () => createSecureContext({ ...versions, cert, key }),
    '--tls-cert and --tls-key cannot be used for TLS 1.3',
  );
  return { cert, key };
}

/** Type of a TLS record that carries a handshake; no frame of a client begins with it. [K-2] */
export const tlsFirstByte = 0x16;

/** An option that `tls.createServer` hands on to its TLSSockets; their types lack it. */
type PskServerOptions = {
  readonly pskCallback: (socket: TLSSocket, identity: string) => Buffer | null;
};

const versions = { minVersion: 'TLSv1.3', maxVersion: 'TLSv1.3' } as const;
/** A pre-shared key is bound to a hash, and OpenSSL accepts such keys for SHA-256 only. */
const pskCiphers = 'TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256';
const bindingBytes = 32;

/** The server's side. Both functions are called for each connection, so that keys and certificate
 *  may change. */
export function serverEncryption(
  authkeys: () => readonly Buffer[],
  certificate?: () => Certificate,
): Encryption {
  // Made for the first peer that encrypts. Without `ca` Node reads all its certificates of
  // authorities (20 ms), of which a server that shows none needs none.
  let secureContext: SecureContext | undefined;
  let shown: Certificate | undefined;
  const options: TLSSocketOptions & PskServerOptions = {
    isServer: true,
    pskCallback: (_socket: TLSSocket, identity: string) => {
      const authkey = authkeys().find((key) => identityOf(key) === identity);
      // Without a key OpenSSL continues as if none had been offered: with the certificate, or an
      // error.
      return authkey === undefined ? null : presharedKey(authkey);
    },
  };
  return {
    begin: (socket) => {
      const now = certificate?.();
      if (secureContext === undefined || now !== shown) {
        const rest = now ?? { ciphers: pskCiphers, ca: [] };
        secureContext = createSecureContext({ ...versions, ...rest });
        shown = now;
      }
      return new TLSSocket(socket, { ...options, secureContext });
    },
    explain: (error) => {
      if (!isOfTls(error)) return undefined;
      if (isWrongKey.test(error.code ?? ''))
        return new AuthError('the peer does not have the authkey');
      return new ProtocolError('the peer does not speak TLS 1.3');
    },
  };
}

/** The client's side with the authkey as the pre-shared key: both sides prove that they hold it. */
export function keyEncryption(authkey: Buffer): Encryption {
  const psk = presharedKey(authkey);
  const options: ConnectionOptions = {
    ...versions,
    ciphers: pskCiphers,
    pskCallback: () => ({ psk, identity: identityOf(authkey) }),
    // A server that does not hold the key may show a certificate instead: none is accepted,
    // whichever CA signed it.
    ca: [],
    rejectUnauthorized: true,
    checkServerIdentity: () => new Error('a certificate instead of the authkey'),
  };
  return {
    begin: (socket) => connect({ ...options, socket }),
    explain: (error) => {
      if (isOfCertificate(error)) return new AuthError('the master refused the authkey');
      if (!isOfTls(error)) return undefined;
      if (!isRefusal.test(error.code ?? '')) return notTls(error);
      return new AuthError('the master refused the authkey');
    },
  };
}

/** The client's side with a certificate: the server must show one for `host` that `ca` (PEM) has
 *  signed. */
export function certificateEncryption(host: string, ca: Buffer): Encryption {
  const options: ConnectionOptions = { ...versions, ca, host, rejectUnauthorized: true };
  // A numeric name cannot be sent as server name; it is still compared with the certificate.
  if (isIP(host) === 0) options.servername = host;
  return {
    begin: (socket) => connect({ ...options, socket }),
    explain: (error) => {
      if (isOfTls(error) && !isRefusal.test(error.code ?? '')) return notTls(error);
      if (isOfTls(error)) {
        return new ConfigError('the master shows no certificate; start the master with --tls-cert');
      }
      if (error.code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
        return new ConfigError(
          `the master's certificate is not for ${host}; use a name from the certificate in --master`,
        );
      }
      if (!isOfCertificate(error)) return undefined;
      const why = messageOf(error);
      return new ConfigError(`the master's certificate is not valid: ${why}; check --tls-ca`);
    },
  };
}

/** Returns 32 bytes that only the two ends of this TLS connection know; none for a plain one. A
 *  proof that contains them cannot be relayed to another connection. [K-6]
 *  Source: RFC 9266, with a label of our own. */
export function channelBinding(socket: Socket): Buffer {
  if (!(socket instanceof TLSSocket)) return Buffer.alloc(0);
  return socket.exportKeyingMaterial(bindingBytes, 'EXPORTER-orbweaver', Buffer.alloc(0));
}

function isOfTls({ code = '' }: NodeJS.ErrnoException): boolean {
  return code.startsWith('ERR_SSL_');
}

/** The errors at our server for a client without the key: it offered no known pre-shared key, so
 *  that a certificate would be needed; or it knew only the identity of one. */
const isWrongKey = /_(NO_SUITABLE_SIGNATURE_ALGORITHM|NO_SHARED_CIPHER|BINDER_DOES_NOT_VERIFY)$/;
/** The alerts that such a client gets. Only these mean that the key was refused. */
const isRefusal =
  /_ALERT_(HANDSHAKE_FAILURE|ILLEGAL_PARAMETER|DECRYPT_ERROR|UNKNOWN_PSK_IDENTITY)$/;

/** Another device answered, or altered the traffic. This says nothing about the key, so the client
 *  may try again. */
function notTls(error: NodeJS.ErrnoException): OrbError {
  return new ConnectionError('the answer is not TLS from a master', error);
}

/** OpenSSL's error names for certificates have no prefix. */
function isOfCertificate({ code = '', syscall }: NodeJS.ErrnoException): boolean {
  return syscall === undefined && (/CERT|SIGNATURE|ISSUER|CRL/.test(code) || code === '');
}

/** Derived from the authkey: its use in one protocol must not help against the other. [K-3] */
function presharedKey(authkey: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', authkey, '', 'orbweaver tls psk', 32));
}

/** Identifies one of several keys, and reveals nothing about it. [K-3] */
function identityOf(authkey: Buffer): string {
  const digest = createHmac('sha256', presharedKey(authkey)).update('identity').digest('hex');
  return `orbweaver ${digest.slice(0, 16)}`;
}
