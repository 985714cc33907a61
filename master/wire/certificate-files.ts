/** The certificate of --tls-cert and its key, in files that may change while the master runs: what
 *  many authorities sign is valid for days or weeks, and a crawl may take longer. */
import { readPem } from '../../shared/cli.ts';
import { type Certificate, makeCertificate } from '../../shared/encryption.ts';
import { messageOf } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';

const lookEveryMs = 1_000;

export class CertificateFiles {
  readonly #certPath: string;
  readonly #keyPath: string;
  #certificate: Certificate;
  #lookedAt = performance.now();
  #wrong = '';

  /** @throws ConfigError one is not valid, or they do not belong together. */
  constructor(certPath: string, keyPath: string) {
    this.#certPath = certPath;
    this.#keyPath = keyPath;
    this.#certificate = makeCertificate(readPem(certPath), readPem(keyPath));
  }

  /** Returns a function that returns the certificate in the files now, which it reads once a second
   *  at most, or the last one that could be used; another one is another object. */
  reader(log: Logger): () => Certificate {
    return () => {
      const now = performance.now();
      if (now - this.#lookedAt < lookEveryMs) return this.#certificate;
      this.#lookedAt = now;
      try {
        this.#look();
        this.#wrong = '';
      } catch (error) {
        const why = messageOf(error);
        if (this.#wrong !== why) log.error(`${why}; the previous certificate stays in use`);
        this.#wrong = why;
      }
      return this.#certificate;
    };
  }

  #look(): void {
    const [cert, key] = [readPem(this.#certPath), readPem(this.#keyPath)];
    if (cert.equals(this.#certificate.cert) && key.equals(this.#certificate.key)) return;
    this.#certificate = makeCertificate(cert, key);
  }
}
