/** Reports the links, images and page descriptions of a relevant start tag. */
import { href, rel, src, style, xlinkHref } from './elements.ts';
import type { ScannerSink } from './scanner-sink.ts';
import type { Tag } from './tag.ts';

export function reportTag(tag: Tag, sink: ScannerSink): void {
  if (tag.has(style)) sink.css(tag.value(style) ?? '', true);
  if (tag.isCut) sink.dropped(tag);
  switch (tag.kind) {
    case 'other':
    case 'template':
    case 'link':
      if (tag.lazies.length > 0) sink.image(tag);
      if (tag.has(href)) sink.link(tag.value(href) ?? '', tag.value(rel));
      break;
    case 'image':
    case 'extra':
      sink.image(tag);
      break;
    case 'about':
      sink.about(tag);
      break;
    case 'base':
      if (tag.has(href)) sink.base(tag.value(href) ?? '');
      break;
    case 'frame':
      if (tag.lazies.length > 0) sink.image(tag);
      reportFrame(tag, sink);
      break;
    case 'raw':
      if (tag.name === 'iframe') reportFrame(tag, sink);
      break;
    case 'foreign':
      if (tag.has(href | xlinkHref)) sink.image(tag);
      break;
    case 'script':
    case 'plaintext':
      break;
    default:
      tag.kind satisfies never;
  }
}

/** A frame without an address shows nothing. */
function reportFrame(tag: Tag, sink: ScannerSink): void {
  const address = tag.value(src) ?? '';
  if (address.trim() !== '') sink.link(address, undefined);
}
