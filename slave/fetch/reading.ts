/** How the body of an answer is read: what each kind of task brings to the exchange. */
import type { FetchSpec } from '../../shared/crawl.ts';

/** Takes a body as it arrives, content codings undone. */
export interface BodyReader<Body> {
  /** Taken so far. */
  readonly bytes: number;
  /** `wait`: no more before `onRoom`; `enough`: at a limit; `not-html`: the body is another's. */
  write(chunk: Uint8Array): 'more' | 'wait' | 'enough' | 'not-html';
  /** What became of it; undefined: the body is another's. */
  end(): Body | undefined | Promise<Body>;
  /** Nobody waits for it any more. */
  close?(): void;
}

/** Which answers with a body are read, and into what. */
export type Reading<Body> = {
  /** The Accept header, where the crawl has none. */
  readonly accept: string;
  /** Type of a body without Content-Type. */
  readonly type?: string;
  /** Is a body of this type read? Undefined: none was sent. */
  takes(essence: string | undefined): boolean;
  open(options: {
    /** Canonical URL of the body. */
    readonly url: string;
    readonly status: number;
    /** The media type; undefined: none was sent. */
    readonly essence: string | undefined;
    readonly spec: FetchSpec;
    /** Charset of Content-Type. */
    readonly charset: string | undefined;
    /** The fields of that name, in lower case. */
    header(name: string): readonly string[];
    /** No Content-Type was sent. */
    readonly sniff: boolean;
    onRoom(): void;
    /** It needs no more, though `write` did not say so. */
    onEnough(): void;
  }): BodyReader<Body>;
};
