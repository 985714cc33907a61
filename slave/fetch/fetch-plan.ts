/**
 * What a kind of task brings to a fetch: how its URL is asked for, where redirects may lead, which
 * bodies are read, and by what. Everything else is the same for all kinds.
 */
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

/** What is known of an answer when its body begins, and what its reader may call. */
export type AnswerHead = {
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
  /** The Accept header, where the crawl has none. */
  readonly accept: string;
  /** Asked with the crawl's first user agent and `accept` alone: without the cookies and the user
   *  agent of a visitor, and without the headers of the crawl. */
  readonly isPlain?: true;
  /** Of the whole fetch, at most; default: what the crawl allows. */
  readonly timeoutMsMax?: number;
  /** Redirects that are followed; default: as many as the crawl allows. */
  readonly redirectsMax?: number;
  /** Redirects are followed to other hosts, too. */
  readonly followsAnywhere?: true;
  /** A part of a body is worth nothing, even at the last attempt. */
  readonly needsWhole?: true;
  /** Type of a body without Content-Type. */
  readonly type?: string;
  /** Who reads the body of such an answer; undefined: it is not read. */
  open(answer: AnswerHead): BodyReader<Body> | undefined;
};
