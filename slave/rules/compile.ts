/** The rules of a crawl, made ready once for all its pages, or what is wrong with them. */
import type { FieldOptions, FieldRule, Fields, ItemRule } from '../../shared/items.ts';
import type { RuleProblem } from '../../shared/rule-results.ts';
import type { ArticleFinder } from './article.ts';
import { RuleFault } from './fault.ts';
import { Pattern } from './pattern.ts';
import { type Finder, finderOf } from './selector.ts';

export type Field = {
  readonly name: string;
  readonly options: FieldOptions;
  readonly finder: Finder | undefined;
  /** Over a value of the page. */
  readonly pattern: Pattern | undefined;
  readonly each: Finder | undefined;
  readonly fields: readonly Field[];
};
export type Item = {
  readonly name: string;
  readonly url: Pattern | undefined;
  readonly content: Pattern | undefined;
  readonly each: Finder | undefined;
  readonly script: Finder | undefined;
  readonly fields: readonly Field[];
  readonly zip: readonly Field[];
  readonly article: ArticleFinder | undefined;
};
/** Collects what is wrong with all rules, so that one look tells all. */
export class Compiler {
  readonly problems: RuleProblem[] = [];
  readonly #articles: () => ArticleFinder;

  /** `articles`: gets what finds articles, where a rule asks for them. */
  constructor(articles: () => ArticleFinder) {
    this.#articles = articles;
  }

  item(name: string, { match, each, script, fields, zip, article }: ItemRule): Item {
    const { url, content } = typeof match === 'object' ? match : { url: match, content: undefined };
    return {
      name,
      url: this.#pattern(url, [name, 'match']),
      content: this.#pattern(content, [name, 'match', 'content']),
      each: this.#finder(each, [name, 'each']),
      script: this.#finder(typeof script === 'string' ? { css: script } : script, [name, 'script']),
      fields: this.#fields(fields, [name, 'fields']),
      zip: this.#fields(zip, [name, 'zip']),
      article: article && this.#article([name, 'article']),
    };
  }

  #article(path: readonly string[]): ArticleFinder | undefined {
    try {
      return this.#articles();
    } catch (error) {
      if (!(error instanceof RuleFault)) throw error;
      this.problems.push({ path, message: error.message, isMissing: true });
      return undefined;
    }
  }

  #fields(fields: Fields | undefined, path: readonly string[]): Field[] {
    return Object.entries(fields ?? {}).map(([name, rule]) =>
      this.#field(name, rule, [...path, name]),
    );
  }

  #field(name: string, rule: FieldRule, path: readonly string[]): Field {
    if (typeof rule === 'string') {
      const finder = this.#finder(rule, path);
      return { name, options: {}, finder, pattern: undefined, each: undefined, fields: [] };
    }
    const { each, fields, value, header, regex } = rule;
    const isOfPage = value !== undefined || header !== undefined;
    return {
      name,
      options: rule,
      finder: isOfPage || each !== undefined ? undefined : this.#finder(rule, path),
      pattern: isOfPage ? this.#pattern(regex, path) : undefined,
      each: this.#finder(each, [...path, 'each']),
      fields: this.#fields(fields, [...path, 'fields']),
    };
  }

  #finder(
    rule: Parameters<typeof finderOf>[0] | undefined,
    path: readonly string[],
  ): Finder | undefined {
    if (rule === undefined) return undefined;
    return this.#tried(path, () => finderOf(rule));
  }

  #pattern(text: string | undefined, path: readonly string[]): Pattern | undefined {
    if (text === undefined) return undefined;
    return this.#tried(path, () => new Pattern(text));
  }

  #tried<T>(path: readonly string[], make: () => T): T | undefined {
    try {
      return make();
    } catch (error) {
      if (!(error instanceof RuleFault)) throw error;
      this.problems.push({ path, message: error.message });
      return undefined;
    }
  }
}

/** Frees what JavaScript does not. */
export function closeItem({ each, script, fields, zip }: Item): void {
  each?.close();
  script?.close();
  for (const field of [...fields, ...zip]) closeField(field);
}

function closeField({ finder, each, fields }: Field): void {
  finder?.close();
  each?.close();
  for (const field of fields) closeField(field);
}
