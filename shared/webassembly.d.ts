/** The part of WebAssembly that is used; Node's types leave it to the DOM library. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module);
    readonly exports: Record<string, unknown>;
  }
  type Memory = { readonly buffer: ArrayBuffer; grow(pages: number): number };
  type Global = { readonly value: unknown };
}
