// Writes each article of the crawl as a Markdown file, with its facts at the top:
// node examples/articles/files.mjs [folder of the crawl]
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.argv[2] ?? 'crawl-data/articles';
const files = join(folder, 'markdown');
mkdirSync(files, { recursive: true });
for (const line of readFileSync(join(folder, 'items.jsonl'), 'utf8').trim().split('\n')) {
  const { title, author, date, language, page, markdown } = JSON.parse(line).item;
  const facts = Object.entries({ title, author, date, language, page });
  const head = facts.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join('\n');
  const name = new URL(page).pathname.split('/').at(-1).replace(/\W+/g, '-');
  writeFileSync(join(files, `${name}.md`), `---\n${head}\n---\n\n# ${title}\n\n${markdown}\n`);
  console.log(join(files, `${name}.md`));
}
