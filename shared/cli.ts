/**
 * Shared by the command lines of master and slave: parsers of values with bounds, environment
 * variables, one-line errors.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import * as z from 'zod';
import { authkeyReader, givenAuthkey, localAuthkeyFile } from './authkey.ts';
import { type ConnectOptions, parseAddress } from './client.ts';
import { AuthError, ConfigError, exitCodeOf, exitCodes, messageOf } from './errors.ts';
import { orderHelp } from './help.ts';
import { visible } from './visible.ts';

/** A command without commander's own exits and multi-line errors. `examples`: of its help. */
export function makeCommand(name: string, env: NodeJS.ProcessEnv, examples?: string): Command {
  const command = new Command(name)
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .helpOption('-h, --help', 'show this help')
    .hook('preAction', (chosen) => {
      refuseEmpty(chosen);
      readSwitches(chosen, env);
    });
  orderHelp(command, examples);
  return command;
}

/** A folder without a name would be the one where the program runs. @throws ConfigError */
function refuseEmpty(command: Command): void {
  for (const option of command.options) {
    const key = option.attributeName();
    if (command.getOptionValue(key) !== '') continue;
    const isFlag = command.getOptionValueSource(key) === 'cli';
    const name = isFlag ? option.long : (option.envVar ?? option.long);
    throw new ConfigError(`${name} is empty; give it a value, or leave it out`);
  }
}

/** Commander turns a switch on, and one with `no-` off, whenever its variable is set, even to
 *  `false`. */
function readSwitches(command: Command, env: NodeJS.ProcessEnv): void {
  for (const option of command.options) {
    const key = option.attributeName();
    const isSwitch = option.isBoolean() || option.negate;
    if (!option.envVar || !isSwitch || command.getOptionValueSource(key) !== 'env') continue;
    const text = env[option.envVar] ?? '';
    if (!/^(1|0|true|false|yes|no|)$/i.test(text)) {
      throw new ConfigError(`${option.envVar} must be true or false, not "${text}"`);
    }
    const isOn = /^(1|true|yes)$/i.test(text) !== option.negate;
    command.setOptionValueWithSource(key, isOn, 'env');
  }
}

/** A flag with its environment variable: `--max-pages` is ORB_MAX_PAGES. */
export function flag(flags: string, description: string): Option {
  const option = new Option(flags, description);
  return option.env(`ORB_${(option.long ?? '').slice(2).replaceAll('-', '_').toUpperCase()}`);
}

/** How the text of a flag becomes its value; `before`: that of the same flag earlier. */
type Parse<T> = (text: string, before: T) => unknown;

export type Fields = Readonly<Record<string, z.ZodType>>;
export type Parsers = Readonly<Record<string, Parse<never>>>;

/** Returns the flag of a field (see `flags.ts`), or undefined if it has none. Without `parse` the
 *  schema decides how its text is read: as a switch, a choice, a whole number within bounds, a list
 *  with one item per flag, or text. */
export function fieldFlag(field: z.ZodType, parse?: Parse<never>): Option | undefined {
  const [, name, help = ''] = /^(--.+?) {2}(.*)$/.exec(field.description ?? '') ?? [];
  if (name === undefined) return undefined;
  const option = flag(name, help);
  let schema: unknown = field;
  let value: unknown;
  while (isOptional(schema)) {
    if (schema instanceof z.ZodDefault) value = schema.def.defaultValue;
    schema = schema.unwrap();
  }
  const isSaid = help.includes('; default: ') || (Array.isArray(value) && value.length === 0);
  if (value !== undefined && !isSaid) {
    if (Array.isArray(value)) option.default(value, value.join(','));
    else option.default(value);
  }
  if (parse !== undefined) return option.argParser(parse as Parse<unknown>);
  if (schema instanceof z.ZodEnum) return option.choices(schema.options.map(String));
  if (schema instanceof z.ZodArray) return option.argParser(checked(schema, several));
  if (schema instanceof z.ZodNumber) {
    return option.argParser(
      whole(schema.minValue ?? 0, schema.maxValue ?? Number.MAX_SAFE_INTEGER),
    );
  }
  const isPlain = schema instanceof z.ZodBoolean || schema instanceof z.ZodString;
  assert.ok(isPlain, `${option.long} needs a parser`);
  return option;
}

function isOptional(schema: unknown): schema is z.ZodDefault | z.ZodOptional | z.ZodPrefault {
  const kinds = [z.ZodDefault, z.ZodOptional, z.ZodPrefault];
  return kinds.some((kind) => schema instanceof kind);
}

/** The flags of an object's fields; `parsers` by the names of the fields. */
export function fieldFlags(shape: Fields, parsers: Parsers = {}): Option[] {
  const options = Object.entries(shape).map(([name, field]) => fieldFlag(field, parsers[name]));
  return options.filter((option) => option !== undefined);
}

/** Parses a text, then checks the value against the schema. The schema's own errors begin with a
 *  verb, "must be …"; those of zod are sentences. */
export function checked<T>(
  schema: z.ZodType,
  parse: (text: string, before: T | undefined) => T,
): (text: string, before: T | undefined) => T {
  return (text, before) => {
    const value = parse(text, before);
    const problem = schema.safeParse(value).error?.issues[0]?.message;
    if (problem === undefined) return value;
    throw new InvalidArgumentError(/^[A-Z]/.test(problem) ? `${problem}.` : `It ${problem}.`);
  };
}

/** The address of a master, and the means to authenticate. */
export type Joining = {
  readonly host: string;
  readonly port: number;
  /** No address was given: it is the master of this folder. */
  readonly isOwn: boolean;
  /** Returns the current key: its file may change. */
  readonly authkey: () => Buffer;
  readonly tls: ConnectOptions['tls'];
};

/** The flags of a program that connects to a master. */
export function joinFlags(description: string): Option[] {
  const keyText = 'file of the shared secret (or set ORB_AUTHKEY); default: ./orb-data/authkey';
  return [
    flag(
      '--master <host:port>',
      `${description}; default: the master of ./orb-data, or 127.0.0.1:6666`,
    ).argParser(address),
    new Option('--authkey-file <file>', keyText).env('ORB_AUTHKEY_FILE'),
    flag(
      '--tls',
      'encrypt the connection (like --master orbs://…); default: on, unless the master is on this machine',
    ),
    new Option(
      '--no-tls',
      'do not encrypt, even if the master is on another machine; default: off',
    ),
    flag(
      '--tls-ca <file>',
      'encrypt, and verify the certificate of the master with this CA file (PEM); default: none',
    ),
  ];
}

/** Returns the values of these flags. @throws ConfigError */
export function joining(values: Record<string, unknown>, env: NodeJS.ProcessEnv): Joining {
  const given = values['master'] as string | undefined;
  const { host, port, isEncrypted } = parseAddress(given ?? localAddress() ?? '127.0.0.1');
  const file = values['authkeyFile'] as string | undefined;
  const key = file === undefined ? environmentAuthkey(env) : undefined;
  const ca = values['tlsCa'] as string | undefined;
  const wanted = values['tls'] as boolean | undefined;
  const isAsked = given !== undefined && isEncrypted;
  if (wanted === false && (isAsked || ca !== undefined)) {
    const other = isAsked ? 'orbs://' : '--tls-ca';
    throw new ConfigError(`--no-tls and ${other} contradict each other: leave one out`);
  }
  const keyFile = () => file ?? localAuthkeyFile(given !== undefined);
  return {
    host: host || '127.0.0.1',
    port,
    isOwn: given === undefined,
    authkey: key === undefined ? authkeyReader(keyFile()) : () => key,
    tls: ca === undefined ? (wanted ?? (isEncrypted || undefined)) : { ca: readPem(ca) },
  };
}

/** Returns the address where the master of this folder listens, or listened before a kill; with
 *  orbs:// where it refuses programs that do not encrypt. */
function localAddress(): string | undefined {
  try {
    return readFileSync('./orb-data/master.addr', 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** A file of certificates or keys. @throws ConfigError */
export function readPem(path: string): Buffer {
  try {
    const pem = readFileSync(path);
    if (pem.includes('-----BEGIN ')) return pem;
  } catch (error) {
    throw new ConfigError(`cannot read ${path}: ${messageOf(error)}`, error);
  }
  throw new ConfigError(`${path} is not PEM: it has no line that starts with -----BEGIN`);
}

/** Parses a whole number within bounds. */
export function whole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = (min < 0 ? /^-?\d+$/ : /^\d+$/).test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    }
    return value;
  };
}

/** Checks `host:port`; the value stays text. */
export function address(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must not be empty.');
  try {
    parseAddress(text);
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error));
  }
  return text;
}

/** Collects a repeatable flag; one value per line in the environment. */
export function several(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), ...text.split('\n').filter((line) => line !== '')];
}

/** Splits a list of values: at commas, or one per line. */
export function listed(text: string): string[] {
  return text.split(/[,\n]/).map((part) => part.trim());
}

/** The key in ORB_AUTHKEY; undefined when it is not set. @throws ConfigError */
export function environmentAuthkey(env: NodeJS.ProcessEnv): Buffer | undefined {
  const key = env['ORB_AUTHKEY'];
  if (key === '') throw new ConfigError('ORB_AUTHKEY is empty; set it to a key, or unset it');
  return key === undefined ? undefined : givenAuthkey(key);
}

/** Runs a program's main. An error ends it with one line and the matching exit code. */
export async function runMain(name: string, main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return; // --help, --version
      const line = messageOf(error).replace(/^error: /, '');
      console.error(`${name}: ${visible(line)} (see --help)`);
      process.exitCode = exitCodes.operator;
      return;
    }
    if (error instanceof AuthError) {
      console.error(
        `${name}: ${visible(messageOf(error))}; give that master's key with --authkey-file or ORB_AUTHKEY`,
      );
      process.exitCode = exitCodes.auth;
      return;
    }
    const unforeseen = exitCodeOf(error) === exitCodes.failed && error instanceof Error;
    console.error(`${name}: ${visible(messageOf(error))}`);
    if (unforeseen && process.env['ORB_DEBUG']) console.error(error.stack);
    process.exitCode = exitCodeOf(error);
  }
}

/** Resolves when what was printed is with its reader, or the reader is gone: the end of a process
 *  drops what a pipe has not taken. `withinMs`: a reader that stands still is not waited for longer. */
export async function outputTaken(withinMs?: number): Promise<void> {
  const streams = [process.stdout, process.stderr];
  const taken = Promise.all(
    streams.map((stream) => new Promise((resolve) => stream.write('', resolve))),
  );
  if (withinMs === undefined) await taken;
  else await Promise.race([taken, new Promise((resolve) => setTimeout(resolve, withinMs))]);
}
