/**
 * The records of a crawl as programs get them: the lines of the result files, each with its kind
 * and a name that no other record has. Their types follow from the table of result fields.
 */
import type * as z from 'zod';
import type { SentSection } from '../shared/record-stream.ts';
import type { Image } from '../shared/requests.ts';
import type { LineKind, RecordKind, resultFields } from '../shared/result-fields.ts';
import type { Values } from '../shared/rule-results.ts';

type Fields = typeof resultFields;
type FieldName = keyof Fields;

/** Fields whose type is neither in their schema nor in the table. */
type Special = {
  images: readonly Image[];
  sitemap: { readonly kind: string; readonly urls: number; readonly images: number };
  item: Readonly<Values>;
  error: { readonly kind: string; readonly message: string; readonly attempts?: number };
};
type ByType = { text: string; integer: number; boolean: boolean; time: string; json: unknown };

type Value<N extends FieldName> = N extends keyof Special
  ? Special[N]
  : Fields[N] extends { schema: infer S extends z.ZodType }
    ? NonNullable<z.output<S>>
    : ByType[Fields[N]['type']];

type NameOf<K extends LineKind> = {
  [N in FieldName]: K extends Fields[N]['of'][number] ? N : never;
}[FieldName];

/** Every line has these. */
type Always = 'url' | 'depth' | 'at';

type Named<K> = {
  readonly kind: K;
  /** The same whenever the record comes again; no other record has it. */
  readonly id: string;
};

/** About one URL. docs/output.md has the meaning of each field. */
export type LineRecord<K extends LineKind = LineKind> = K extends LineKind
  ? Named<K> & { readonly [N in NameOf<K> & Always]: Value<N> } & {
      readonly [N in Exclude<NameOf<K>, Always>]?: Value<N>;
    }
  : never;

/** An image of the crawl, once. */
export type ImageUrlRecord = Named<'image-url'> & { readonly url: string };

export type CrawlRecord = LineRecord | ImageUrlRecord;

/** A record and its number within its crawl. */
export type Numbered = { readonly seq: number; readonly record: CrawlRecord };

/** The records of a section, one after the other. */
export function* recordsOf(crawl: string, section: SentSection): Generator<Numbered> {
  const [kind, first, text] = section;
  let seq = first;
  for (const line of text.split('\n').slice(0, -1)) {
    const fields = kind === 'image-url' ? { url: line } : JSON.parse(line);
    yield { seq, record: named(crawl, seq, kind, fields) };
    seq++;
  }
}

function named(crawl: string, seq: number, kind: RecordKind, fields: object): CrawlRecord {
  return { kind, id: `${crawl}-${seq}`, ...fields } as CrawlRecord;
}
