/** A crawl file in words, for `check`. */
import { amount } from '../../shared/amount.ts';
import { articleFields } from '../../shared/article.ts';
import type { FollowRule } from '../../shared/follow.ts';
import {
  type FieldRule,
  type Fields,
  type ItemRule,
  placeOf,
  type RowsRule,
  selectorOf,
} from '../../shared/items.ts';
import type { Login } from '../../shared/login.ts';
import { type NamedOutput, outputText } from '../../shared/outputs.ts';
import type { CrawlFile } from './crawl-file.ts';
import { durationText } from './duration.ts';
import type { SeedList, SeedPart, SeedSource } from './seed-list.ts';

const languages = { css: 'CSS', xpath: 'XPath', json: 'JSONPath', regex: 'pattern' } as const;

export function explained(file: CrawlFile): string[] {
  const { path, crawl, list, options, follow, login, outputs, items } = file;
  const lines = [`${path} is valid: crawl ${crawl}, ${amount(plainSeeds(list).length, 'seed')}`];
  for (const part of list.parts) {
    if ('source' in part) lines.push(`  and ${partText(part)}`);
    if ('requests' in part) {
      const [{ method, url, body } = { method: '', url: '', body: '' }] = part.requests;
      const what = amount(part.requests.length, 'request');
      lines.push(`  and ${what} ${method} ${url} with ${amount(body.length, 'byte')}`);
    }
  }
  if (list.shard !== undefined) {
    const { number, of } = list.shard;
    lines.push(`  of these, part ${number} of ${of}`);
  }
  if (login !== undefined) lines.push(`  ${loginText(login)}`);
  for (const rule of follow ?? []) lines.push(`  follow ${followText(rule)}`);
  for (const [name, value] of options) lines.push(`  ${name}: ${JSON.stringify(value)}`);
  for (const output of outputs) {
    lines.push(`  output ${outputText(output)}: ${takesText(output)}`);
  }
  for (const [name, item] of Object.entries(items)) {
    lines.push('', `${name}: ${itemText(item)}`);
    lines.push(...fieldLines(item.zip), ...fieldLines(item.fields));
  }
  return lines;
}

/** Which records an output takes, and what becomes of a second one with the same key. */
function takesText({ records, rule, columns, table, key, onConflict = 'insert' }: NamedOutput) {
  const of = rule === undefined ? '' : ` of rule ${rule}`;
  const parts = [`${records}${of}`];
  if (table !== undefined) parts.push(`table ${table}`);
  if (columns !== undefined) parts.push(`columns ${columns.join(', ')}`);
  if (key !== undefined) parts.push(`key ${key.join(', ')}: ${conflictTexts[onConflict]}`);
  return parts.join('; ');
}

const conflictTexts = {
  insert: 'a second row is rejected',
  skip: 'the first row stays',
  update: 'the last row stays',
} as const;

/** A login without its values. */
function loginText({ url, form, fields, until }: Login): string {
  const which = form === undefined ? 'the form' : `the form at ${placeText(form)}`;
  const names = Object.keys(fields).join(', ');
  return `log in by ${which} of ${url} with ${names}, until the page after it has ${placeText(until)}`;
}

/** Which links a follow rule picks. */
export function followText({ css, xpath, href, regex, ...how }: FollowRule): string {
  const { pick = 'all', count, seed, priority } = how;
  const place = [
    css === undefined ? '' : `CSS ${css}`,
    xpath === undefined ? '' : `XPath ${xpath}`,
    href === undefined ? '' : `links like ${href}`,
    regex === undefined ? '' : `pattern ${regex}`,
  ].join('');
  const picked = pick === 'all' && count === undefined ? '' : `, ${pick} ${count ?? ''}`.trimEnd();
  const seeded = seed === undefined ? '' : `, seed ${seed}`;
  return `${place}${picked}${seeded}${priority === undefined ? '' : `, priority ${priority}`}`;
}

/** The seeds that a list says itself, in its order. */
export function plainSeeds({ parts }: SeedList): string[] {
  return parts.flatMap((part) => ('urls' in part ? part.urls : []));
}

function partText({ source, everyMs }: Extract<SeedPart, { source: SeedSource }>): string {
  const again = everyMs === undefined ? '' : `, every ${durationText(everyMs)}`;
  switch (source.from) {
    case 'file':
      return `those of the file ${source.path}${again}`;
    case 'sitemap':
      return `those of the sitemap ${source.url}${again}`;
    case 'page':
      return `${source.make.join(', ')}, where $1 is what ${source.pattern} finds in ${source.url}${again}`;
    case 'command':
      return `the lines of the command ${source.command.join(' ')}${again}`;
    default:
      return source satisfies never;
  }
}

/** The pages that a rule selects. */
export function selectsText(match: ItemRule['match']): string {
  if (match === undefined) return 'all pages';
  const { url, content } = typeof match === 'string' ? { url: match, content: undefined } : match;
  const parts = [
    url === undefined ? '' : `whose URL has ${url}`,
    content === undefined ? '' : `whose content has ${content}`,
  ];
  return `pages ${parts.filter((part) => part !== '').join(' and ')}`;
}

function itemText({ match, each, script, zip, article }: ItemRule): string {
  const parts = [selectsText(match)];
  if (script !== undefined) {
    parts.push(`JSON of ${typeof script === 'string' ? `CSS ${script}` : placeText(script)}`);
  }
  if (article === true) parts.push(`the article of a page: ${articleFields.join(', ')}`);
  else if (each !== undefined) parts.push(`a row for each ${placeText(each)}`);
  else parts.push(zip === undefined ? 'one row for a page' : 'a row for each value of its columns');
  return parts.join('; ');
}

function fieldLines(fields: Fields | undefined, indent = '  '): string[] {
  const entries = Object.entries(fields ?? {});
  const width = Math.max(0, ...entries.map(([name]) => name.length));
  return entries.flatMap(([name, field]) => [
    `${indent}${name.padEnd(width)}  ${fieldText(field)}`,
    ...(typeof field === 'string' ? [] : fieldLines(field.fields, `${indent}  `)),
  ]);
}

function fieldText(field: FieldRule): string {
  if (typeof field === 'string') return placeText(field);
  const { value, header, each, type, required, all, trim, regex } = field;
  const parts: string[] = [];
  if (value !== undefined) parts.push(`the page's ${value}`);
  if (header !== undefined) parts.push(`header ${header}`);
  if (each !== undefined) parts.push(`a list of rows, one for each ${placeText(each)}`);
  if (parts.length === 0) parts.push(placeText(field));
  else if (regex !== undefined) parts.push(`pattern ${regex}`);
  if (type !== undefined) parts.push(type);
  if (all === true) parts.push('all values');
  if (trim === false) parts.push('not trimmed');
  if (field.default !== undefined) parts.push(`default ${JSON.stringify(field.default)}`);
  if (required === true) parts.push('required');
  return parts.join(', ');
}

function placeText(rule: Exclude<RowsRule, undefined>): string {
  if (typeof rule === 'string') {
    const { kind, text } = selectorOf(rule);
    return `${languages[kind]} ${text}`;
  }
  const place = placeOf(rule);
  const parts = place === undefined ? [] : [`${languages[place.kind]} ${place.text}`];
  if (rule.regex !== undefined) parts.push(`pattern ${rule.regex}`);
  return parts.join(', ');
}
