/** Pages with articles, and a folder of programs that lack the packages for them. */
import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { articlePackages } from '../../shared/article.ts';
import { root } from './cluster.ts';

const sentence = 'A sentence of the story, with commas, and with words. ';

/** A page of a news site: `n` paragraphs between a menu and a footer. */
export function storyPage(name: string, n = 5): string {
  const menu = Array.from({ length: 20 }, (_, i) => `<li><a href="/tag/${i}">Tag ${i}</a>`);
  const paragraphs = Array.from({ length: n }, (_, i) => `<p>${i}: ${sentence.repeat(4)}`);
  return `<!doctype html><html lang="en-GB"><title>${name} | The Paper</title>
    <meta name=author content="Ann Author">
    <meta property="article:published_time" content="2026-11-20T10:00:00+01:00">
    <nav><ul>${menu.join('')}</ul></nav>
    <article><h1>${name}</h1>${paragraphs.join('')}
    <h2>More</h2><p>See <a href="/story/other">the <b>other</b> one</a>, ${sentence.repeat(3)}
    <ul><li>${sentence}<li>${sentence}</ul></article>
    <footer>Imprint</footer>`;
}

/** Makes a folder with the programs and their packages, but not those for articles. */
export function bareFolder(folder: string): string {
  const modules = join(folder, 'node_modules');
  mkdirSync(modules, { recursive: true });
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name.startsWith('.') || Object.keys(articlePackages).some((one) => one.startsWith(name))) {
      continue;
    }
    symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  for (const name of ['master.js', 'slave.js', 'package.json']) {
    cpSync(join(root, name), join(folder, name));
  }
  return folder;
}
