/** `proxy`: it cannot be reached or refuses us. `connect`: it did not reach the host. */
export class ProxyError extends Error {
  readonly kind: 'proxy' | 'connect';

  constructor(kind: 'proxy' | 'connect', message: string) {
    super(message);
    this.name = 'ProxyError';
    this.kind = kind;
  }
}

/** The proxy ended the connection before it answered. */
export class ProxyClosedError extends ProxyError {
  constructor() {
    super('proxy', 'the proxy closed the connection');
  }
}
