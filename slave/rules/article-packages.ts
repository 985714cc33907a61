/**
 * Where the packages for articles are: beside slave.js, or above it, so that they can be installed
 * for a slave.js that was copied alone. The child for rules gets their paths, since it has no place
 * of its own. Source: docs/articles.md.
 */
import { createRequire } from 'node:module';
import { articleInstall } from '../../shared/article.ts';
import { isInstalled } from '../installed.ts';
import type { ArticlePackages } from './messages.ts';

/** Are they there? */
export function hasArticlePackages(): boolean {
  const areBeside = ['@mozilla/readability', 'linkedom'].every(isInstalled);
  // Node finds those of a global folder, too.
  return areBeside || !('missing' in findArticlePackages());
}

/** Looks for them; they may be installed while a slave runs, which takes them at its next start. */
export function findArticlePackages(): ArticlePackages {
  const { resolve } = createRequire(import.meta.url);
  try {
    return { readability: resolve('@mozilla/readability'), linkedom: resolve('linkedom') };
  } catch {
    return { missing: `needs packages that are not installed here: ${articleInstall}` };
  }
}
