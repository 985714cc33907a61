/** `--config`: the options that neither flags nor environment set. */
import type { Command, Option } from 'commander';
import { masterCall } from '../../shared/calls.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { didYouMean } from '../../shared/nearest-name.ts';
import { readYaml } from './yaml-file.ts';

/** Fills the options that neither flag nor environment gave from a YAML or JSON file whose keys
 *  are the flags' long names. @throws ConfigError */
export function applyConfigFile(command: Command, path: string): void {
  const file = readYaml(path, 'config file');
  const settings = file.value;
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings)) {
    throw new ConfigError(`${path} must hold option: value lines, for example "delay: 100"`);
  }
  const ofCrawl = Object.keys(settings).find((key) => crawlFileKeys.includes(key));
  const fault = (name: string, why: string, cause?: unknown) =>
    new ConfigError(`${path}:${file.lineOf([name])}: ${why}`, cause);
  if (ofCrawl !== undefined) {
    const such = `"${ofCrawl}" is a key of crawl files; give such a file without --config`;
    throw fault(ofCrawl, `${such}: ${masterCall} ${path}`);
  }
  for (const [name, value] of Object.entries(settings)) setOption(command, name, value, fault);
}

type Fault = (name: string, why: string, cause?: unknown) => ConfigError;

/** Keys of a crawl file that are no options. */
export const crawlFileKeys: readonly string[] = ['shard', 'login', 'follow', 'items', 'outputs'];

function setOption(command: Command, name: string, value: unknown, fault: Fault): void {
  const option = command.options.find(({ long }) => long === `--${name}`);
  if (option === undefined || name === 'config') {
    const known = command.options.flatMap(({ long }) => long?.slice('--'.length) ?? []);
    const advice = didYouMean(name, known, 'see --help');
    throw fault(name, `there is no option "${name}"; ${advice}`);
  }
  const key = option.attributeName();
  const source = command.getOptionValueSource(key);
  if (source === 'cli' || source === 'env') return;
  if (option.optional && value === false) return;
  try {
    command.setOptionValueWithSource(key, optionValue(option, value), 'config');
  } catch (error) {
    const why = messageOf(error);
    const what = why.startsWith('must ') ? `"${name}" ${why}` : `${name}: ${why}`;
    throw fault(name, what, error);
  }
}

/** The value of an option as its flag would have it.
 *  @throws Error it does not fit, with the reason */
export function optionValue(option: Option, value: unknown): unknown {
  if (option.isBoolean()) {
    if (typeof value !== 'boolean') throw new Error('must be true or false');
    return value;
  }
  const text = textOf(value, option);
  if (text === undefined) throw new Error('must be text or a number');
  if (option.parseArg) return option.parseArg(text, undefined as never);
  if (text === '') throw new Error('must not be empty');
  return text;
}

/** Returns the value as the environment would have it: a list is one value per line. undefined: not
 *  a value. */
function textOf(value: unknown, { parseArg, optional }: Option): string | undefined {
  if (optional && value === true) return 'true';
  const items = Array.isArray(value) && parseArg !== undefined ? value : [value];
  const isText = items.every((item) => typeof item === 'string' || typeof item === 'number');
  return isText ? items.join('\n') : undefined;
}
