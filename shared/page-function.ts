/**
 * A page function: a program of the slave's owner that is called with each page, beside the rules
 * of its crawl. It is the default export of the module that `node slave.js --page FILE` names.
 * Types only. Source: docs/page-function.md.
 */
import type { Json } from './rule-results.ts';

/** Elements of a page, in its order; nothing in it changes the page. */
export interface Selection extends Iterable<Selection> {
  readonly length: number;
  /** The elements below these that a CSS selector finds. */
  find(selector: string): Selection;
  /** One of them; without it, an empty selection. Negative numbers count from the end. */
  eq(index: number): Selection;
  first(): Selection;
  /** The whole text of all of them. */
  text(): string;
  /** An attribute of the first one. */
  attr(name: string): string | undefined;
  /** The first one as HTML, with its own tag. */
  html(): string | undefined;
  /** Calls a function with each of them. */
  map<T>(make: (element: Selection, index: number) => T): T[];
}

export interface PageContext {
  /** The URL that was asked for; without its redirects. */
  readonly url: string;
  readonly finalUrl: string;
  readonly depth: number;
  readonly status: number;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The text of the answer, decoded. */
  readonly html: string;
  /** The matches of a CSS selector in the page. The tree is made when this is first called. */
  readonly $: (selector: string) => Selection;
  /** The value of an answer that is JSON; undefined: it is not. */
  readonly json: Json | undefined;
  /** Adds a link to those of the page: absolute, or relative to it; undefined and null: none.
   *  Anything else throws. */
  follow(url: string | URL | undefined | null): void;
  /** Makes a row of `items.jsonl`, as those of rules; `rule`: its name, by default `page`. */
  emit(item: Readonly<Record<string, unknown>>, rule?: string): void;
}

export type PageFunction = (page: PageContext) => void | Promise<void>;
