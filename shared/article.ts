/**
 * `article: true` in a rule: the fields that a page then has, and the packages that find them. They
 * are optional: slaves look for them beside slave.js. Source: docs/articles.md.
 */

/** The fields of an article, in their order. */
export const articleFields = ['title', 'author', 'date', 'language', 'text', 'markdown'] as const;
export type ArticleField = (typeof articleFields)[number];

/** The packages that find them, with the versions that are tested. */
export const articlePackages = {
  '@mozilla/readability': '0.6.0',
  linkedom: '0.18.12',
} as const;

const named = Object.entries(articlePackages).map(([name, version]) => `${name}@${version}`);

/** Advice where they are missing. */
export const articleInstall = `run npm install ${named.join(' ')} in the folder of slave.js`;
