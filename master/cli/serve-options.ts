/** The flags of a serving master, and the options that flags, environment and config file make. */
import { join } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { address, environmentAuthkey, flag, listed, readPem, whole } from '../../shared/cli.ts';
import { parseAddress } from '../../shared/client.ts';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { type Certificate, makeCertificate } from '../../shared/encryption.ts';
import { ConfigError } from '../../shared/errors.ts';
import type { AuthDigest } from '../../shared/handshake.ts';
import { type LogLevel, logLevels } from '../../shared/log.ts';
import { limits } from '../../shared/protocol.ts';
import { type GroupingKind, groupings } from '../frontier/politeness/grouping.ts';
import type { Timing } from '../wire/services.ts';
import { applyConfigFile } from './config-file.ts';
import { crawlName, makeSpec, seedUrl, specFlags } from './crawl-options.ts';

export type ServeOptions = {
  readonly kind: 'serve';
  readonly seeds: readonly string[];
  readonly host: string;
  readonly port: number;
  readonly dataFolder: string;
  readonly outFolder: string;
  readonly crawl: string;
  readonly spec: CrawlSpec;
  /** The key itself, from ORB_AUTHKEY; undefined: the one in `authkeyFile`. */
  readonly authkey: Buffer | undefined;
  /** Made at the first start when it is missing. */
  readonly authkeyFile: string;
  /** Digests accepted in answers to the challenge. */
  readonly authDigest: AuthDigest;
  /** Unencrypted connections are refused. */
  readonly tls: boolean;
  /** Shown to peers that ask for a certificate. */
  readonly certificate: Certificate | undefined;
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Declared queues, each with its maximum number of items; Infinity: no maximum. */
  readonly queues: ReadonlyMap<string, number>;
  /** The answer to a Python program's put waits for the commit. */
  readonly durablePut: boolean;
  /** The hosts that share a delay and a concurrency. */
  readonly grouping: GroupingKind;
  /** Number of slave processes that the master starts. */
  readonly slaves: number;
  readonly exitWhenDone: boolean;
  /** With less free disk space, everything waits. */
  readonly diskReserveBytes: number;
  readonly recentUrls: number;
  readonly memoryBytes: number;
  readonly timing: Timing;
  readonly statusEveryMs: number;
  readonly jsonLogs: boolean;
  readonly logLevel: LogLevel;
};

type Values = Record<string, unknown>;

/** All flags of serving, in the order in which help shows them. */
export function allServeFlags(): Option[] {
  return [...serveFlags(), ...timingFlags(), ...specFlags()];
}

function serveFlags(): Option[] {
  return [
    flag(
      '--listen <[host]:port>',
      'address and port for slaves and commands; without a host: all addresses',
    )
      .default(':6666')
      .argParser(address),
    ...folderFlags(),
    flag('--crawl <name>', 'name of the crawl for the seeds')
      .default('default')
      .argParser(crawlName),
    new Option(
      '--authkey-file <file>',
      'file of the shared secret, created if missing (or set ORB_AUTHKEY); default: <data>/authkey',
    ).env('ORB_AUTHKEY_FILE'),
    flag(
      '--auth-digest <which>',
      'digests accepted in the handshake: any, or sha256 (refuses Python up to 3.11, which uses MD5)',
    )
      .choices(['any', 'sha256'])
      .default('any'),
    flag('--tls', 'refuse unencrypted connections (stock Python cannot encrypt)').default(false),
    flag(
      '--tls-cert <file>',
      'certificate file (PEM), shown to peers that use --tls-ca; default: none',
    ),
    flag('--tls-key <file>', 'file of the private key (PEM) of --tls-cert; default: none'),
    flag('--connections <n>', 'maximum number of connections')
      .default(10_000)
      .argParser(whole(1, 100_000)),
    flag(
      '--connections-per-address <n>',
      'maximum number of authenticated connections per client address (IPv6: per /64)',
    )
      .default(2_000)
      .argParser(whole(1, 100_000)),
    flag(
      '--queues <name[:max],…>',
      'named queues to serve, each with an optional maximum number of items; default: none',
    ).argParser(queues),
    flag(
      '--durable-put',
      'answer a put of a Python program only once the item is on the disk',
    ).default(false),
    flag(
      '--politeness-group <kind>',
      'unit that shares --delay and --per-host: host, domain or ip address',
    )
      .choices(groupings)
      .default('host'),
    flag(
      '--config <file>',
      'YAML or JSON file of options, keyed by their long names; default: none',
    ),
    flag('--slaves <n>', 'number of slave processes to start on this machine')
      .default(0)
      .argParser(whole(0, 256)),
    flag('--exit-when-done', 'exit with code 0 when every crawl is finished').default(false),
    flag('--disk-reserve <mb>', 'minimum free disk space, in MB; below it, the master waits')
      .default(256)
      .argParser(whole(1, 1_000_000)),
    flag('--memory-limit <MB>', "the master's memory limit, in MiB (page cache excluded)")
      .default(1024)
      .argParser(whole(256, 1 << 20)),
    flag('--recent-urls <n>', 'number of known URLs cached in memory, 16 bytes each')
      .default(1 << 18)
      .argParser(whole(1024, 1 << 28)),
    flag('--status-every <s>', 'seconds between status lines when the output is not a terminal')
      .default(10)
      .argParser(whole(1, 86_400)),
    flag('--json-logs', 'write log lines as JSON').default(false),
    flag('--log-level <level>', 'lowest log level to print').choices(logLevels).default('info'),
  ];
}

export function folderFlags(): Option[] {
  return [
    flag('--data <folder>', 'folder of the state: store, authkey, lock').default('./orb-data'),
    flag(
      '--out <folder>',
      'folder of the results: <out>/<crawl>/pages.jsonl and img_src.txt',
    ).default('./crawl-data'),
  ];
}

/** For tests and slow networks: the time limits that `hello` announces, in seconds. [B-4] */
function timingFlags(): Option[] {
  return [
    flag('--lease <s>', 'seconds that a lease lasts after it was given or extended')
      .default(limits.leaseMs / 1000)
      .argParser(seconds),
    flag(
      '--lease-margin <s>',
      'seconds that a lease lasts beyond the time of two fetches, extended or not',
    )
      .default(limits.leaseMarginMs / 1000)
      .argParser(seconds),
    flag(
      '--python-lease <s>',
      'seconds of silence after which the pages of a Python program are released',
    )
      .default(limits.pythonLeaseMs / 1000)
      .argParser(seconds),
    flag('--heartbeat <s>', 'seconds without sending after which a peer sends a ping')
      .default(limits.heartbeatMs / 1000)
      .argParser(seconds),
    flag('--silence <s>', 'seconds without receiving after which a peer closes the connection')
      .default(limits.silenceMs / 1000)
      .argParser(seconds),
    flag('--handshake <s>', 'seconds from accepting a connection to the end of its hello')
      .default(limits.handshakeMs / 1000)
      .argParser(seconds),
  ].map((option) => option.hideHelp());
}

/** @throws ConfigError */
export function serveOptions(
  program: Command,
  seeds: string[],
  env: NodeJS.ProcessEnv,
): ServeOptions {
  const config = program.opts()['config'];
  if (typeof config === 'string') applyConfigFile(program, config);
  const values: Values = program.opts();
  // The environment overrides the config file.
  const isKeyFile =
    values['authkeyFile'] !== undefined &&
    (program.getOptionValueSource('authkeyFile') !== 'config' || env['ORB_AUTHKEY'] === undefined);
  const { host, port } = parseAddress(String(values['listen']));
  return {
    kind: 'serve',
    seeds: seeds.map((seed, i) => seedUrl(seed, i === 0)),
    host,
    port,
    dataFolder: String(values['data']),
    outFolder: String(values['out']),
    crawl: String(values['crawl']),
    spec: makeSpec(values),
    authkey: isKeyFile ? undefined : environmentAuthkey(env),
    authkeyFile: String(values['authkeyFile'] ?? join(String(values['data']), 'authkey')),
    authDigest: values['authDigest'] as AuthDigest,
    tls: values['tls'] === true,
    certificate: certificate(values),
    connections: Number(values['connections']),
    connectionsPerAddress: Number(values['connectionsPerAddress']),
    queues: (values['queues'] ?? new Map()) as ReadonlyMap<string, number>,
    durablePut: values['durablePut'] === true,
    grouping: values['politenessGroup'] as GroupingKind,
    slaves: Number(values['slaves']),
    exitWhenDone: values['exitWhenDone'] === true,
    diskReserveBytes: Number(values['diskReserve']) * 1e6,
    recentUrls: Number(values['recentUrls']),
    memoryBytes: Number(values['memoryLimit']) * 2 ** 20,
    timing: timing(values),
    statusEveryMs: Number(values['statusEvery']) * 1000,
    jsonLogs: values['jsonLogs'] === true,
    logLevel: values['logLevel'] as LogLevel,
  };
}

/** @throws ConfigError */
function certificate(values: Values): Certificate | undefined {
  const { tlsCert, tlsKey } = values as { tlsCert?: string; tlsKey?: string };
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined) {
    throw new ConfigError(
      '--tls-cert and --tls-key must be given together: the certificate and its key',
    );
  }
  return makeCertificate(readPem(tlsCert), readPem(tlsKey));
}

/** @throws ConfigError limits that would close every session. */
function timing(values: Values): Timing {
  const ms = (name: string) => Math.round(Number(values[name]) * 1000);
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
