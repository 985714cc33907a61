/**
 * The parts of a fetch that depend on the kind of task: the request, the permitted redirects, the
 * bodies that are read, and their reader. Everything else is the same for all kinds.
 */
import type { FetchSpec } from '../../shared/crawl.ts';

/** Takes a body as it arrives, content codings undone. */
export interface BodyReader<Body> {
  /** Bytes read so far. */
  readonly bytes: number;
  /** `wait`: no more before `onRoom`; `enough`: at a limit; `not-html`: the body is not of this
   *  kind. */
  write(chunk: Uint8Array): 'more' | 'wait' | 'enough' | 'not-html';
  /** Returns the result; undefined: the body is not of this kind. */
  end(): Body | undefined | Promise<Body>;
  /** Called when the result is no longer wanted. */
  close?(): void;
}

/** The head of an answer, and the functions that its reader may call. */
type AnswerHead = {
  /** Canonical URL of the answer. */
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
};

export type FetchPlan<Body> = {
  /** The Accept header, if the crawl sets none. */
  readonly accept: string;
  /** Requested only with the crawl's first user agent and `accept`: without the cookies and the
   *  user agent of an identity, and without the headers of the crawl. */
  readonly isPlain?: true;
  /** Time limit of the whole fetch; default: that of the crawl. */
  readonly timeoutMsMax?: number;
  /** Maximum number of redirects; default: that of the crawl. */
  readonly redirectsMax?: number;
  /** Redirects are followed to other hosts, too. */
  readonly followsAnywhere?: true;
  /** A part of a body is useless, even at the last attempt. */
  readonly needsWhole?: true;
  /** Its reader keeps the whole body. */
  readonly keepsBody?: true;
  /** Type of a body without Content-Type. */
  readonly type?: string;
  /** Returns the reader for the body of such an answer; undefined: it is not read. */
  open(answer: AnswerHead): BodyReader<Body> | undefined;
};
