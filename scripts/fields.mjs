// Keeps the table of fields in docs/output.md in step with shared/result-fields.ts.
// `node scripts/fields.mjs` after a build; with `--check` it only says whether they are in step.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { recordKinds, resultFields } from '../dist/shared/result-fields.js';

const path = fileURLToPath(new URL('../docs/output.md', import.meta.url));
const lineKinds = recordKinds.slice(0, recordKinds.indexOf('image-url'));
const pageKinds = lineKinds.filter((kind) => kind !== 'skipped');

/** The kinds in words, as short as can be. */
function kindsOf({ of }) {
  const lacks = (kinds) => kinds.filter((kind) => !of.includes(kind));
  if (lacks(lineKinds).length === 0) return 'all';
  const missing = lacks(pageKinds);
  if (of.includes('skipped') || missing.length > 2) return of.join(', ');
  return missing.length === 0 ? 'all but skipped' : `all but ${[...missing, 'skipped'].join(', ')}`;
}

const rows = Object.entries(resultFields).map(([name, field]) => {
  return `| \`${name}\` | ${field.type} | ${kindsOf(field)} | ${field.meaning} |`;
});
const table = ['| field | type | in | meaning |', '|---|---|---|---|', ...rows].join('\n');
const before = readFileSync(path, 'utf8');
const after = before.replace(
  /(<!-- fields -->\n)[\s\S]*?(<!-- end -->)/,
  (_, start, end) => `${start}${table}\n${end}`,
);
if (!process.argv.includes('--check')) writeFileSync(path, after);
else if (before !== after) {
  console.error('docs/output.md does not list the fields: run node scripts/fields.mjs');
  process.exitCode = 1;
}
