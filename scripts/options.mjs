// Keeps the option tables of docs/options.md, and the variables that docker-compose.yml hands on,
// in step with the programs: reads `--help` of both and rewrites what stands between the markers.
// `node scripts/options.mjs`; with `--check` it only says whether they are in step.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The options of a program: `{flag, text}` with the text on one line. */
function optionsOf(program) {
  const help = execFileSync(process.execPath, [join(root, program), '--help'], {
    encoding: 'utf8',
  });
  const lines = help.slice(help.indexOf('\nOptions:\n')).split('\n');
  const options = [];
  let isIn = false;
  for (const line of lines) {
    const [, flag, text] = /^ {2}(-.+?) {2,}(.*)$/.exec(line) ?? [];
    if (flag !== undefined) options.push({ flag, text });
    else if (isIn && line.startsWith('   ')) options.at(-1).text += ` ${line.trim()}`;
    isIn = flag !== undefined || (isIn && line.startsWith('   '));
  }
  return options.filter(({ flag }) => !/--(help|version)$/.test(flag));
}

/** `text (choices: "a", "b", default: "a", env: ORB_X)` in its parts. */
function row({ flag, text }) {
  const [, words, tail = ''] = /^(.*?)(?: \(((?:choices|default|env): .*)\))?$/.exec(text);
  const environment = /env: (\w+)/.exec(tail)?.[1];
  const choices = /choices: ("[^"]*"(?:, "[^"]*")*)/.exec(tail)?.[1];
  const given = /default: ("[^"]*"|[^,]+)/.exec(tail)?.[1]?.replaceAll('"', '');
  // A default that depends on something stands at the end of the sentence.
  const [, meaning, said] = /^(.*?)(?:; default: (.*))?$/.exec(words);
  const value = given === 'false' ? 'off' : (said ?? given ?? '');
  const isCode = value !== '' && value !== 'off' && !value.includes(' ');
  const unsaid = choices?.split(', ').some((choice) => !meaning.includes(choice.slice(1, -1)));
  const cells = [
    `\`${flag}\``,
    environment === undefined ? '' : `\`${environment}\``,
    isCode ? `\`${value}\`` : value,
    meaning.replaceAll('<', '&lt;') + (unsaid ? `: ${choices.replaceAll('"', '')}` : ''),
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function table(program) {
  const head = ['| flag | environment | default | meaning |', '|---|---|---|---|'];
  return [...head, ...optionsOf(program).map(row)].join('\n');
}

/** A variable without a value is the one of the engine's environment, if it is there. */
function variables(program, indent, given) {
  const help = execFileSync(process.execPath, [join(root, program), '--help'], {
    encoding: 'utf8',
  });
  return [...new Set(help.match(/\bORB_[A-Z0-9_]+/g))]
    .filter((name) => !given.includes(`${indent}${name}: `))
    .map((name) => `${indent}${name}:`)
    .join('\n');
}

/** `rewritten`: the text of a file as it is to be. */
function keep(file, rewritten) {
  const before = readFileSync(join(root, file), 'utf8');
  const after = rewritten(before);
  if (!process.argv.includes('--check')) writeFileSync(join(root, file), after);
  else if (before !== after) {
    console.error(`${file} does not list the options of --help: run node scripts/options.mjs`);
    process.exitCode = 1;
  }
}

/** The variables of both programs, each once, in lines of at most 100 columns. */
function allVariables() {
  const names = ['master.js', 'slave.js'].flatMap((program) =>
    variables(program, '', '').replaceAll(':', '').split('\n'),
  );
  const lines = [''];
  for (const name of new Set(names)) {
    if (`${lines.at(-1)} ${name}`.length > 100) lines.push('');
    lines[lines.length - 1] = `${lines.at(-1)} ${name}`.trim();
  }
  return lines.join('\n');
}

keep('shared/variables.ts', (text) =>
  text.replace(/(const ofOptions = `\n)[^`]*`/, (_, start) => `${start}${allVariables()}\n\``),
);
keep('docs/options.md', (text) =>
  text.replace(
    /(<!-- options of (\w+\.js) -->\n)[\s\S]*?(\n<!-- end -->)/g,
    (_, start, program, end) => start + table(program) + end,
  ),
);
keep('docker-compose.yml', (text) =>
  text.replace(
    /(environment:\n(?:(?! *environment:).*\n)*?)( *)(# options of (\w+\.js)\n)[\s\S]*?( *# end\n)/g,
    (_, given, indent, start, program, end) =>
      `${given}${indent}${start}${variables(program, indent, given)}\n${end}`,
  ),
);
