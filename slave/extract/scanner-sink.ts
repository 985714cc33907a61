/**
 * The reports of a scanner about a page, in document order, and the part of them that counts in
 * markup for browsers without frames. Values are raw: character references are not decoded.
 */
import type { Tag } from './tag.ts';

export type ScannerSink = {
  /** A link of a, area, frame, and of iframe if wanted. `rel` only with the option of that name. */
  link(href: string, rel: string | undefined): void;
  /** An img element, or with `all` another one that may name images. */
  image(tag: Tag): void;
  /** A link or meta element. */
  about(tag: Tag): void;
  base(href: string): void;
  /** The text of the first title, at most `titleCharsMax` of it. */
  title(text: string): void;
  /** With `all`: the text of a style element, or the value of a style attribute. */
  css(text: string, isAttribute: boolean): void;
  /** With `all`: the text of a script of type application/ld+json. */
  data(text: string): void;
  /** The markup in a noframes element. */
  noframes(text: string): void;
  /** With `figures`: a figure element begins or ends. */
  figure(isOpen: boolean): void;
  /** Values of the tag were too long to be kept. The tag is also reported as usual. */
  dropped(tag: Tag): void;
  /** The text of a style, script or noframes element was too long to be kept whole. */
  textDropped(element: string): void;
};

/** In a noframes element links and images count, but no description of the page. */
export function framelessSink(sink: ScannerSink): ScannerSink {
  const ignore = (): void => {};
  return {
    link: (href, rel) => sink.link(href, rel),
    image: (tag) => sink.image(tag),
    css: (text, isAttribute) => sink.css(text, isAttribute),
    data: (text) => sink.data(text),
    figure: (isOpen) => sink.figure(isOpen),
    dropped: (tag) => sink.dropped(tag),
    textDropped: (element) => sink.textDropped(element),
    about: ignore,
    base: ignore,
    title: ignore,
    noframes: ignore,
  };
}
