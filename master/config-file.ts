/** `--config`: what flags and environment leave open. */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { parse as parseYaml } from 'yaml';
import { ConfigError, messageOf } from '../shared/errors.ts';

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
    throw new ConfigError(`${path} is not YAML: ${messageOf(error)}`, error);
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
  const values = Array.isArray(value) ? value : [value];
  if (!values.every((item) => typeof item === 'string' || typeof item === 'number')) {
    throw new ConfigError(`${path}: "${name}" must be text or a number`);
  }
  let parsed: unknown;
  for (const item of values) {
    try {
      const text = String(item);
      parsed = option.parseArg ? option.parseArg(text, parsed as never) : text;
    } catch (error) {
      throw new ConfigError(`${path}: ${name}: ${messageOf(error)}`, error);
    }
  }
  command.setOptionValueWithSource(key, parsed, 'config');
}
