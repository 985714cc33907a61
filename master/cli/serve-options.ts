/**
 * The options of a serving master: flags and schemas of their values, and the options that flags,
 * environment and config file make.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import * as z from 'zod';
import { address, environmentAuthkey, fieldFlags, listed, type Parsers } from '../../shared/cli.ts';
import { parseAddress } from '../../shared/client.ts';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { rarely, switched, whole } from '../../shared/flags.ts';
import { logFields } from '../../shared/log.ts';
import { limits } from '../../shared/protocol.ts';
import { groupings } from '../frontier/politeness/grouping.ts';
import { CertificateFiles } from '../wire/certificate-files.ts';
import type { Timing } from '../wire/services.ts';
import { applyConfigFile } from './config-file.ts';
import { withCrawlFile } from './crawl-file.ts';
import { crawlName, makeSpec, seedUrl, specFlags } from './crawl-options.ts';
import type { SeedList } from './seed-list.ts';

const slavesMax = 256;

const folderFields = {
  data: z
    .string()
    .default('./orb-data')
    .describe('--data <folder>  folder of the state: store, authkey, lock'),
  out: z
    .string()
    .default('./crawl-data')
    .describe('--out <folder>  folder of the results: <out>/<crawl>/pages.jsonl and img_src.txt'),
};

const serveFields = {
  listen: z
    .string()
    .default(':6666')
    .describe(
      '--listen <[host]:port>  address and port for slaves and commands; without a host: all addresses',
    ),
  ...folderFields,
  crawl: z.string().default('default').describe('--crawl <name>  name of the crawl for the seeds'),
  only: switched().describe(
    '--only  fetch only this --crawl, and leave other unfinished crawls alone',
  ),
  seeds: z
    .array(z.string())
    .default([])
    .describe(
      '--seeds <file>  file of seeds, one URL per line, or - for standard input (repeatable); default: none',
    ),
  authkeyFile: z
    .string()
    .optional()
    .describe(
      '--authkey-file <file>  file of the shared secret, created if missing (or set ORB_AUTHKEY); default: <data>/authkey',
    ),
  /** Digests accepted in answers to the challenge. */
  authDigest: z
    .enum(['any', 'sha256'])
    .default('any')
    .describe(
      '--auth-digest <which>  digests accepted in the handshake: any, or sha256 (refuses Python up to 3.11, which uses MD5)',
    ),
  tls: switched().describe('--tls  refuse unencrypted connections (stock Python cannot encrypt)'),
  tlsCert: z
    .string()
    .optional()
    .describe(
      '--tls-cert <file>  certificate file (PEM), shown to peers that use --tls-ca; default: none',
    ),
  tlsKey: z
    .string()
    .optional()
    .describe('--tls-key <file>  file of the private key (PEM) of --tls-cert; default: none'),
  connections: whole(1, 100_000)
    .default(10_000)
    .describe('--connections <n>  maximum number of connections'),
  connectionsPerAddress: whole(1, 100_000)
    .default(2_000)
    .describe(
      '--connections-per-address <n>  maximum number of authenticated connections per client address (IPv6: per /64)',
    ),
  /** Infinity: no maximum. */
  queues: z
    .custom<ReadonlyMap<string, number>>()
    .default(new Map())
    .describe(
      '--queues <name[:max],…>  named queues to serve, each with an optional maximum number of items; default: none',
    ),
  durablePut: switched().describe(
    '--durable-put  answer a put of a Python program only once the item is on the disk',
  ),
  politenessGroup: z
    .enum(groupings)
    .default('host')
    .describe(
      '--politeness-group <kind>  unit that shares --delay and --per-host: host, domain or ip address',
    ),
  config: z
    .string()
    .optional()
    .describe(
      '--config <file>  YAML or JSON file of options, keyed by their long names; default: none',
    ),
  slaves: z
    .union([z.literal('auto'), whole(0, slavesMax)])
    .default(0)
    .describe(
      '--slaves <n>  number of slave processes to start on this machine; auto: as many as it has room for',
    ),
  exitWhenDone: switched().describe(
    '--exit-when-done  exit with code 0 when every crawl is finished',
  ),
  compact: switched().describe(
    '--compact  compact the store before the start, to free the disk space of removed crawls',
  ),
  diskReserve: whole(1, 1_000_000)
    .default(256)
    .describe('--disk-reserve <mb>  minimum free disk space, in MB; below it, the master waits'),
  memoryLimit: whole(256, 1 << 20)
    .default(1024)
    .describe("--memory-limit <MB>  the master's memory limit, in MiB (page cache excluded)"),
  sinkBacklog: whole(1, 1 << 20)
    .default(1024)
    .describe(
      '--sink-backlog <MB>  results of a crawl that may wait for one of its outputs, in MiB; beyond it, the crawl is held',
    ),
  recentUrls: whole(1024, 1 << 28)
    .default(1 << 18)
    .describe('--recent-urls <n>  number of known URLs cached in memory, 16 bytes each'),
  statusEvery: whole(1, 86_400)
    .default(10)
    .describe('--status-every <s>  seconds between status lines when the output is not a terminal'),
  ...logFields,
};

const patience = (ms: number, text: string) =>
  z
    .number()
    .default(ms / 1000)
    .describe(text);

/** For tests and odd networks: the patience that `hello` announces, in seconds. [B-4] */
const timingFields = {
  lease: patience(
    limits.leaseMs,
    '--lease <s>  seconds that a lease lasts after it was given or extended',
  ),
  leaseMargin: patience(
    limits.leaseMarginMs,
    '--lease-margin <s>  seconds that a lease lasts beyond the time of two fetches, extended or not',
  ),
  pythonLease: patience(
    limits.pythonLeaseMs,
    '--python-lease <s>  seconds of silence after which the pages of a Python program are released',
  ),
  heartbeat: patience(
    limits.heartbeatMs,
    '--heartbeat <s>  seconds without sending after which a peer sends a ping',
  ),
  silence: patience(
    limits.silenceMs,
    '--silence <s>  seconds without receiving after which a peer closes the connection',
  ),
  handshake: patience(
    limits.handshakeMs,
    '--handshake <s>  seconds from accepting a connection to the end of its hello',
  ),
};

/** For programs that start a master. */
const programFields = {
  stream: switched().describe(
    '--stream  hand the records of --crawl to the program that started this master (for the npm library)',
  ),
};

const serveSchema = z.object({ ...serveFields, ...timingFields, ...programFields });
type Values = z.infer<typeof serveSchema>;

const serveParsers: Parsers = { listen: address, crawl: crawlName, queues, slaves: slaveCount };
const timingParsers: Parsers = Object.fromEntries(
  Object.keys(timingFields).map((name) => [name, seconds]),
);

/** All flags of serving, in the order in which help shows them. */
export function allServeFlags(): Option[] {
  const timing = fieldFlags(timingFields, timingParsers).map((option) => option.hideHelp());
  // No variable of the environment turns it on: slaves, and masters of tests, inherit it.
  const program = fieldFlags(programFields).map(({ flags, description }) =>
    new Option(flags, description).hideHelp(),
  );
  return [...fieldFlags(serveFields, serveParsers), ...timing, ...program, ...specFlags()];
}

export function folderFlags(): Option[] {
  return fieldFlags(folderFields);
}

export type ServeOptions = ReturnType<typeof serveOptions>;

/** @throws ConfigError */
export function serveOptions(program: Command, seeds: string[], env: NodeJS.ProcessEnv) {
  const config = program.opts()['config'];
  if (typeof config === 'string') applyConfigFile(program, config);
  const given = withCrawlFile(program, seeds, 'config', () =>
    program.opts()['stream'] === true ? streamedFile() : undefined,
  );
  const values = serveSchema.parse(program.opts(), rarely);
  // The environment comes before the config file.
  const isKeyFile =
    values.authkeyFile !== undefined &&
    (program.getOptionValueSource('authkeyFile') !== 'config' || env['ORB_AUTHKEY'] === undefined);
  // Without seeds its outputs are those of crawls that are added, which may have rules.
  const hasSeeds = given.seeds.length + given.list.parts.length + (values.seeds?.length ?? 0) > 0;
  const isFitted = hasSeeds || program.opts()['download'] !== undefined;
  const spec = makeSpec(program.opts(), isFitted ? {} : undefined);
  refuseEvery(spec, values, given.list);
  return {
    kind: 'serve' as const,
    ...values,
    ...parseAddress(values.listen),
    seeds: given.seeds.map((seed, i) => seedUrl(seed, i === 0)),
    /** Of a crawl file: further seeds. */
    list: given.list,
    /** Files of further seeds. */
    seedFiles: values.seeds,
    dataFolder: values.data,
    outFolder: values.out,
    spec,
    /** Of the seeds and the items; undefined: none was given. */
    crawlFile: program.opts()['crawlFile'] as string | undefined,
    /** Its text, if a program has sent it. */
    crawlText: program.opts()['crawlText'] as string | undefined,
    /** Oddities of the environment. */
    warnings: [] as readonly string[],
    /** The options that the operator gave, by the names of their attributes. */
    given: givenIn(program),
    /** The hosts that share a delay and a concurrency. */
    grouping: values.politenessGroup,
    /** The key itself, from ORB_AUTHKEY; undefined: the one in `authkeyFile`. */
    authkey: isKeyFile ? undefined : environmentAuthkey(env),
    /** Made at the first start when it is missing. */
    authkeyFile: values.authkeyFile ?? join(values.data, 'authkey'),
    /** Shown to peers that ask for a certificate. */
    certificate: certificate(values),
    /** With less free disk space, everything waits. */
    diskReserveBytes: values.diskReserve * 1e6,
    memoryBytes: values.memoryLimit * 2 ** 20,
    /** Results that may wait for a sink of a crawl. */
    sinkBacklogBytes: values.sinkBacklog * 2 ** 20,
    /** Where outputs read the secrets of their targets. */
    env,
    timing: timing(values),
    statusEveryMs: values.statusEvery * 1000,
  };
}

/** A crawl that is repeated has no end. @throws ConfigError */
function refuseEvery(
  { everyMs }: CrawlSpec,
  { exitWhenDone, stream }: Values,
  list: SeedList,
): void {
  if (everyMs === undefined) return;
  if (stream) throw new ConfigError('every: a loop reads one crawl: begin it again yourself');
  if (exitWhenDone) {
    throw new ConfigError(
      '--exit-when-done and --every exclude each other: a crawl that is repeated is never done',
    );
  }
  if (list.parts.some((part) => 'source' in part && part.everyMs !== undefined)) {
    throw new ConfigError(
      'every: the whole crawl is repeated, with its sources of seeds; leave out the every of seeds',
    );
  }
}

/** The crawl file of a program comes on standard input: so nothing of it, cookies included, stays
 *  behind when the program is killed. @throws ConfigError */
function streamedFile(): string | undefined {
  // Else there is no program, and this may be a terminal: main says so.
  if (process.send === undefined) return undefined;
  try {
    return readFileSync(0, 'utf8');
  } catch (error) {
    throw new ConfigError(`cannot read the crawl file of the program: ${messageOf(error)}`, error);
  }
}

/** On the command line, by a variable or in the config file. */
function givenIn(program: Command): ReadonlySet<string> {
  const names = Object.keys(program.opts());
  const isGiven = (name: string) => (program.getOptionValueSource(name) ?? 'default') !== 'default';
  return new Set(names.filter(isGiven));
}

/** @throws ConfigError */
function certificate({ tlsCert, tlsKey }: Values): CertificateFiles | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new ConfigError(
      '--tls-cert and --tls-key must be given together: the certificate and its key',
    );
  }
  return new CertificateFiles(tlsCert, tlsKey);
}

/** @throws ConfigError limits that would close every session. */
function timing(values: Values): Timing {
  const ms = (name: keyof typeof timingFields) => Math.round(values[name] * 1000);
  const heartbeatMs = ms('heartbeat');
  const silenceMs = ms('silence');
  if (silenceMs < 2 * heartbeatMs) {
    throw new ConfigError('--silence must be at least twice --heartbeat, since a ping may be late');
  }
  return {
    leaseMs: ms('lease'),
    leaseMarginMs: ms('leaseMargin'),
    pythonLeaseMs: ms('pythonLease'),
    heartbeatMs,
    silenceMs,
    handshakeMs: ms('handshake'),
  };
}

function slaveCount(text: string): number | 'auto' {
  if (text === 'auto') return text;
  if (/^\d{1,3}$/.test(text) && Number(text) <= slavesMax) return Number(text);
  throw new InvalidArgumentError(`It must be auto, or a whole number from 0 to ${slavesMax}.`);
}

function queues(text: string): Map<string, number> {
  const entries = listed(text).map((part): [string, number] => {
    const [, name = '', max] = /^([A-Za-z_]\w{0,63})(?::([1-9]\d{0,9}))?$/.exec(part) ?? [];
    if (name === '') {
      throw new InvalidArgumentError(
        'It must be queue names, each with an optional maximum: a,b:1000.',
      );
    }
    return [name, max === undefined ? Number.POSITIVE_INFINITY : Number(max)];
  });
  return new Map(entries);
}

function seconds(text: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= 0.1 && value <= 86_400)) {
    throw new InvalidArgumentError('It must be a number of seconds from 0.1 to 86400.');
  }
  return value;
}
