/** `--config`: the options that neither flags nor environment set. */
import { readFileSync } from 'node:fs';
import type { Command, Option } from 'commander';
import { parse as parseYaml } from 'yaml';
import { ConfigError, messageOf } from '../../shared/errors.ts';

/** Fills the options that neither flag nor environment gave from a YAML or JSON file whose keys
 *  are the flags' long names. @throws ConfigError */
export function applyConfigFile(command: Command, path: string): void {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`cannot read the config file ${path}: ${messageOf(error)}`, error);
  }
  let settings: unknown;
  try {
    settings = parseYaml(text, { maxAliasCount: 10, schema: 'core' }) ?? {};
  } catch (error) {
    // The lines after the first show the file's text.
    const [what = ''] = String(error instanceof Error ? error.message : error).split(/:?\n/);
    throw new ConfigError(`${path} is not YAML: ${what}`, error);
  }
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings)) {
    throw new ConfigError(`${path} must hold option: value lines, for example "delay: 100"`);
  }
  for (const [name, value] of Object.entries(settings)) setOption(command, path, name, value);
}

function setOption(command: Command, path: string, name: string, value: unknown): void {
  const option = command.options.find(({ long }) => long === `--${name}`);
  if (option === undefined || name === 'config') {
    throw new ConfigError(`${path}: there is no option "${name}"; see --help`);
  }
  const key = option.attributeName();
  const source = command.getOptionValueSource(key);
  if (source === 'cli' || source === 'env') return;
  if (option.isBoolean()) {
    if (typeof value !== 'boolean') {
      throw new ConfigError(`${path}: "${name}" must be true or false`);
    }
    command.setOptionValueWithSource(key, value, 'config');
    return;
  }
  if (option.optional && value === false) return;
  const text = textOf(value, option);
  if (text === undefined) throw new ConfigError(`${path}: "${name}" must be text or a number`);
  let parsed: unknown;
  try {
    parsed = option.parseArg ? option.parseArg(text, undefined as never) : text;
  } catch (error) {
    throw new ConfigError(`${path}: ${name}: ${messageOf(error)}`, error);
  }
  command.setOptionValueWithSource(key, parsed, 'config');
}

/** Returns the value as the environment would have it: a list is one value per line. undefined: not
 *  a value. */
function textOf(value: unknown, { parseArg, optional }: Option): string | undefined {
  if (optional && value === true) return 'true';
  const items = Array.isArray(value) && parseArg !== undefined ? value : [value];
  const isText = items.every((item) => typeof item === 'string' || typeof item === 'number');
  return isText ? items.join('\n') : undefined;
}
