/**
 * One rule on one page: its rows, the values of their fields, what is missing or of a wrong type,
 * and the counts of all that. Source: docs/rules.md.
 */
import { articleFields } from '../../shared/article.ts';
import type { FieldOptions } from '../../shared/items.ts';
import { isJsonType } from '../../shared/media-types.ts';
import type { Json, RuleCounts, RuleResult, Values } from '../../shared/rule-results.ts';
import type { ArticleFinder } from './article.ts';
import type { Field, Item } from './compile.ts';
import { NotJson, RuleFault } from './fault.ts';
import type { RulePage } from './rule-page.ts';
import { asText, type Finder, type Place, type Row } from './selector.ts';
import { isEmpty, isWrong, trimmed, typed } from './value.ts';

/** Rows of a rule on one page, and within a row. */
const rowsMax = 10_000;
/** Stands for the scripts among the fields with a wrong value: no field has this name. */
const scripts = '';

type MadeRow = { readonly values: Values; readonly why: string | undefined };

/** A value of a row, and what is wrong with it. */
type Read = { readonly value: Json; readonly wrong?: string };

export function noCounts(): RuleCounts {
  return { pages: 0, matched: 0, empty: 0, wrong: 0, failed: 0, rows: 0, rejected: 0 };
}

/** One rule on one page. Its rows are added to a result. */
export class Evaluation {
  readonly #item: Item;
  readonly #page: RulePage;
  readonly #result: RuleResult;
  readonly #documents: () => readonly Json[];
  /** Fields with a value in some row, and with one of another type. */
  readonly #found = new Set<string>();
  readonly #wrong = new Set<string>();

  constructor(item: Item, page: RulePage, result: RuleResult) {
    this.#item = item;
    this.#page = page;
    this.#result = result;
    let documents: readonly Json[] | undefined;
    this.#documents = () => {
      documents ??= this.#readDocuments();
      return documents;
    };
  }

  run(): void {
    const { name, fields, zip, article } = this.#item;
    const counts = noCounts();
    counts.pages = 1;
    this.#result.counts[name] = counts;
    try {
      const rows = this.#made();
      for (const { values, why } of rows) {
        if (why === undefined) this.#result.rows.push({ rule: name, values });
        else this.#result.rejected.push({ rule: name, values, why });
        counts[why === undefined ? 'rows' : 'rejected']++;
      }
      counts[counts.rows > 0 ? 'matched' : 'empty']++;
      if (this.#wrong.size > 0) counts.wrong++;
      if (rows.length > 0) {
        const own = [...zip, ...fields].map((field) => field.name);
        this.#countFields(article === undefined ? own : new Set([...articleFields, ...own]));
      }
    } catch (error) {
      if (!(error instanceof RuleFault || error instanceof RangeError)) throw error;
      counts.failed++;
      this.#result.failures.push({ rule: name, message: error.message });
    }
  }

  #countFields(names: Iterable<string>): void {
    for (const name of names) {
      const counts = noCounts();
      counts.pages = 1;
      counts[this.#found.has(name) ? 'matched' : 'empty']++;
      if (this.#wrong.has(name)) counts.wrong++;
      this.#result.counts[`${this.#item.name}.${name}`] = counts;
    }
  }

  #made(): MadeRow[] {
    const { zip, article } = this.#item;
    if (article !== undefined) return this.#article(article);
    return zip.length > 0 ? this.#zipped() : this.#rows();
  }

  #rows(): MadeRow[] {
    const { each, fields } = this.#item;
    const page: Row = { kind: 'whole' };
    const rows = each === undefined ? [page] : this.#within(each, page);
    const made = rows.map((row) => this.#row(fields, row, ''));
    if (each !== undefined) return made;
    // A page without anything of a rule is no row of it. Values of the page itself do not count.
    const isRow =
      fields.every(isOfPage) || fields.some((one) => !isOfPage(one) && this.#found.has(one.name));
    return isRow ? made : [];
  }

  /** The article of the page, with the fields of the rule, which take the place of its own. */
  #article(finder: ArticleFinder): MadeRow[] {
    const found = finder.find(this.#page);
    if (found === undefined) return [];
    const { fields } = this.#item;
    const values: Values = {};
    for (const name of articleFields) {
      if (fields.some((field) => field.name === name)) continue;
      const isDate = name === 'date' && found.date !== null;
      const value = isDate ? typed(found.date, 'date', '') : found[name];
      if (isWrong(value)) this.#wrong.add(name);
      else if (!isEmpty(value)) this.#found.add(name);
      values[name] = isWrong(value) ? null : value;
    }
    const own = this.#row(fields, { kind: 'whole' }, '');
    return [{ values: { ...values, ...own.values }, why: own.why }];
  }

  /** Columns, joined; and the fields of the page with each row. */
  #zipped(): MadeRow[] {
    const { zip, fields } = this.#item;
    const page: Row = { kind: 'whole' };
    const columns = zip.map((field) => this.#column(field, page));
    const lengths = columns.map((column) => column.length);
    const count = lengths[0] ?? 0;
    if (lengths.some((length) => length !== count)) {
      const all = zip.map(({ name }, i) => `${name} ${lengths[i]}`).join(', ');
      throw new RuleFault(`the columns of zip have unequal lengths: ${all}`);
    }
    return Array.from({ length: count }, (_, row) => {
      const joined: Values = {};
      const reasons: string[] = [];
      zip.forEach((field, i) => {
        const read = columns[i]?.[row] ?? { value: null };
        this.#take(field, read, joined, reasons, '');
      });
      const { values, why } = this.#row(fields, page, '');
      if (why !== undefined) reasons.push(why);
      return {
        values: { ...joined, ...values },
        why: reasons.length > 0 ? reasons.join('; ') : undefined,
      };
    });
  }

  #row(fields: readonly Field[], row: Row, prefix: string): MadeRow {
    const values: Values = {};
    const reasons: string[] = [];
    for (const field of fields) {
      this.#take(field, this.#read(field, row), values, reasons, prefix);
    }
    return { values, why: reasons.length > 0 ? reasons.join('; ') : undefined };
  }

  #take(field: Field, read: Read, values: Values, reasons: string[], prefix: string): void {
    const { name, options } = field;
    let { value } = read;
    const top = `${prefix}${name}`;
    if (read.wrong !== undefined) this.#wrong.add(top);
    if (isEmpty(value) || (Array.isArray(value) && value.length === 0)) {
      if (options.default !== undefined && read.wrong === undefined) value = options.default;
      else if (options.required === true) reasons.push(`${top}: ${read.wrong ?? 'is missing'}`);
    } else {
      this.#found.add(top);
    }
    values[name] = value ?? null;
  }

  #read(field: Field, row: Row): Read {
    const { options, each, fields } = field;
    if (each !== undefined) {
      const rows = this.#within(each, row).map((inner) =>
        this.#row(fields, inner, `${field.name}.`),
      );
      // A row within a row that is rejected rejects that row, too, if the field is required.
      const whole = rows.filter(({ why }) => why === undefined).map(({ values }) => values);
      const wrong = rows.find(({ why }) => why !== undefined)?.why;
      return wrong === undefined ? { value: whole } : { value: whole, wrong };
    }
    const all = this.#values(field, row);
    if (options.all !== true) return all[0] ?? { value: null };
    const wrong = all.find((one) => one.wrong !== undefined)?.wrong;
    const value = all.filter((one) => one.wrong === undefined).map((one) => one.value);
    return wrong === undefined ? { value } : { value, wrong };
  }

  /** The values that are not empty, in their order. */
  #values(field: Field, row: Row): Read[] {
    return this.#search(field, row)
      .filter((one) => !isEmpty(one))
      .map((one) => this.#typed(field, one));
  }

  /** The values of a column; empty ones have their place. */
  #column(field: Field, row: Row): Read[] {
    return this.#search(field, row).map((one) =>
      isEmpty(one) ? { value: null } : this.#typed(field, one),
    );
  }

  #search(field: Field, row: Row): Json[] {
    const { options, finder, pattern } = field;
    const place: Place = { page: this.#page, row, documents: this.#documents };
    let found = finder === undefined ? this.#ofPage(options) : finder.values(place);
    if (pattern !== undefined) found = found.flatMap((value) => pattern.all(asText(value)));
    if (options.trim === false) return found;
    return found.map((value) => (typeof value === 'string' ? trimmed(value) : value));
  }

  #typed({ options }: Field, found: Json): Read {
    const value = typed(found, options.type, options.type === 'url' ? this.#page.base : '');
    return isWrong(value) ? { value: null, wrong: value.wrong } : { value };
  }

  #ofPage({ value, header }: FieldOptions): Json[] {
    const { input } = this.#page;
    if (header !== undefined) {
      const text = input.headers[header.toLowerCase()];
      return text === undefined ? [] : [text];
    }
    return value === undefined ? [] : [input[value]];
  }

  #within(each: Finder, row: Row): Row[] {
    const rows = each.rows({ page: this.#page, row, documents: this.#documents });
    if (rows.length <= rowsMax) return rows;
    throw new RuleFault(`finds ${rows.length} rows on one page; ${rowsMax} are allowed`);
  }

  #readDocuments(): Json[] {
    const { script } = this.#item;
    const page: Place = { page: this.#page, row: { kind: 'whole' }, documents: () => [] };
    if (script !== undefined) return this.#readScripts(script.values(page));
    const { type, text } = this.#page.input;
    if (!isJsonType(type) && !/^\s*[[{]/.test(text.slice(0, 1_000))) {
      throw new RuleFault(`the page is ${type}, not JSON; for JSON in the page, name its script`);
    }
    return [this.#page.jsonOf(text)];
  }

  /** Pages have JSON-LD of several programs: one that is broken does not take that of the others
   *  along, and counts as wrong. */
  #readScripts(texts: readonly Json[]): Json[] {
    const documents: Json[] = [];
    let fault: NotJson | undefined;
    for (const text of texts) {
      try {
        documents.push(this.#page.jsonOf(asText(text)));
      } catch (error) {
        if (!(error instanceof NotJson)) throw error;
        fault ??= error;
      }
    }
    if (fault !== undefined && documents.length === 0) throw fault;
    if (fault !== undefined) this.#wrong.add(scripts);
    return documents;
  }
}

function isOfPage({ options: { value, header } }: Field): boolean {
  return value !== undefined || header !== undefined;
}
