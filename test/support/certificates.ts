/**
 * Certificates for HTTPS servers of tests, made in each run: an authority, certificates signed by
 * it, and self-signed ones. A slave trusts the authority by NODE_EXTRA_CA_CERTS.
 * Source: RFC 5280, 4.1; RFC 5480 (keys); X.690 (DER).
 */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import type { Identity } from '../../selftest/site.ts';

type Wanted = {
  /** DNS names and IPv4 addresses. */
  readonly names?: readonly string[];
  /** Whole days from now; negative: expired so many days ago. */
  readonly days?: number;
};

export class Authority {
  readonly #name = `orbweaver test ${randomBytes(4).toString('hex')}`;
  readonly #pair = keyPair();
  /** PEM. */
  readonly cert = certificate({
    subject: this.#name,
    issuer: this.#name,
    publicKey: this.#pair.publicKey,
    signer: this.#pair.privateKey,
    extensions: [extension(oids.basicConstraints, sequence(der(0x01, Buffer.from([0xff]))))],
    days: 30,
  });

  /** A certificate for a server, by default for 127.0.0.1 and localhost. */
  issue({ names = ['127.0.0.1', 'localhost'], days = 30 }: Wanted = {}): Identity {
    return issue(names, days, { issuer: this.#name, signer: this.#pair.privateKey });
  }
}

/** A self-signed certificate. */
export function selfSigned({ names = ['127.0.0.1'], days = 30 }: Wanted = {}): Identity {
  return issue(names, days);
}

function issue(
  names: readonly string[],
  days: number,
  by?: { issuer: string; signer: KeyObject },
): Identity {
  const { publicKey, privateKey } = keyPair();
  const subject = names[0] ?? '';
  const cert = certificate({
    subject,
    issuer: by?.issuer ?? subject,
    publicKey,
    signer: by?.signer ?? privateKey,
    extensions: [extension(oids.subjectAltName, sequence(...names.map(generalName)))],
    days,
  });
  return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

const oids = {
  commonName: [0x55, 0x04, 0x03],
  ecdsaWithSha256: [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
  basicConstraints: [0x55, 0x1d, 0x13],
  subjectAltName: [0x55, 0x1d, 0x11],
};
const dayMs = 86_400_000;

function keyPair() {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' });
}

function certificate(fields: {
  subject: string;
  issuer: string;
  publicKey: KeyObject;
  signer: KeyObject;
  extensions: readonly Buffer[];
  days: number;
}): string {
  const { subject, issuer, publicKey, signer, extensions, days } = fields;
  const algorithm = sequence(oid(oids.ecdsaWithSha256));
  const end = Date.now() + days * dayMs;
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    name(issuer),
    sequence(time(end - 60 * dayMs), time(end)),
    name(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = der(0x03, Buffer.concat([Buffer.from([0]), sign('sha256', body, signer)]));
  const text = sequence(body, algorithm, signature).toString('base64');
  const lines = text.match(/.{1,64}/g)?.join('\n');
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const long = length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  const head = length < 128 ? [tag, length] : [tag, ...long];
  return Buffer.concat([Buffer.from(head), content]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

function oid(bytes: readonly number[]): Buffer {
  return der(0x06, Buffer.from(bytes));
}

function name(text: string): Buffer {
  return sequence(der(0x31, sequence(oid(oids.commonName), der(0x0c, Buffer.from(text)))));
}

/** GeneralizedTime: YYYYMMDDHHMMSSZ. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '');
  return der(0x18, Buffer.from(text));
}

function extension(id: readonly number[], value: Buffer): Buffer {
  return sequence(oid(id), der(0x04, value));
}

function generalName(text: string): Buffer {
  return /^[\d.]+$/.test(text)
    ? der(0x87, Buffer.from(text.split('.').map(Number)))
    : der(0x82, Buffer.from(text));
}
