/**
 * The variables `ORB_…` of the environment. Nobody reads one with a typing error in its name, so the
 * programs warn about names that are none of these. Pure.
 */
import { didYouMean } from './nearest-name.ts';

/** Of master and slave, in the order of `--help`: `node scripts/options.mjs` writes them. */
const ofOptions = `
ORB_DATA ORB_OUT ORB_CRAWL ORB_ONLY ORB_SEEDS ORB_CONFIG ORB_SLAVES ORB_EXIT_WHEN_DONE ORB_EVERY
ORB_KEEP ORB_SCOPE ORB_INCLUDE ORB_EXCLUDE ORB_MAX_DEPTH ORB_MAX_PAGES ORB_ORDER ORB_CANONICAL
ORB_TRAPS ORB_SITEMAPS ORB_SITEMAP_SINCE ORB_OBEY ORB_IFRAMES ORB_IGNORE_REFRESH ORB_DIGEST
ORB_POLITENESS_GROUP ORB_DELAY ORB_PER_HOST ORB_CRAWL_DELAY_MAX ORB_IGNORE_ROBOTS ORB_USER_AGENT
ORB_CONTACT ORB_FETCH_TIMEOUT ORB_CONNECT_TIMEOUT ORB_PAGE_BYTES ORB_REDIRECTS ORB_PROXY ORB_HTTP2
ORB_HEADER ORB_HEADER_EVERYWHERE ORB_COOKIE ORB_COOKIE_FILE ORB_ALLOW_PRIVATE ORB_RULE_BYTES
ORB_RENDER ORB_ATTEMPTS ORB_IMAGES ORB_SRCSET ORB_LAZY_ATTRIBUTES ORB_DOWNLOAD ORB_IMAGES_TO
ORB_MAX_IMAGES ORB_SINK_BACKLOG ORB_OUTPUT ORB_ARCHIVE ORB_ARCHIVE_BYTES ORB_SAVE
ORB_ARCHIVE_FILE_BYTES ORB_LISTEN ORB_AUTHKEY ORB_AUTHKEY_FILE ORB_AUTH_DIGEST ORB_TLS ORB_TLS_CERT
ORB_TLS_KEY ORB_CONNECTIONS ORB_CONNECTIONS_PER_ADDRESS ORB_QUEUES ORB_DURABLE_PUT ORB_COMPACT
ORB_DISK_RESERVE ORB_MEMORY_LIMIT ORB_RECENT_URLS ORB_URLS_EXPECTED ORB_STATUS_EVERY ORB_JSON_LOGS
ORB_LOG_LEVEL ORB_ALLOW_EXEC ORB_EXEC_FOLDER ORB_EXEC_USER ORB_EXEC_SLOTS ORB_EXEC_TIMEOUT
ORB_EXEC_CPU ORB_EXEC_MEMORY ORB_EXEC_PROCESSES ORB_EXEC_FILE_SIZE ORB_EXEC_DISK ORB_EXEC_OUTPUT
ORB_SLOTS ORB_PROCESSES ORB_ROBOTS_ONLY ORB_PAGE ORB_NAME ORB_BROWSER ORB_BROWSER_PROGRAM
ORB_NO_SANDBOX ORB_MASTER ORB_TLS_CA ORB_JOIN_TIMEOUT
`;
/** Of options that help does not show, of the selftest and of docker-compose.yml. */
const others = `
ORB_LEASE ORB_LEASE_MARGIN ORB_PYTHON_LEASE ORB_HEARTBEAT ORB_SILENCE ORB_HANDSHAKE ORB_DEBUG
ORB_AUTHKEY ORB_RESULTS ORB_USER ORB_PUBLISH ORB_RESTART ORB_SCALE
`;
const known = new Set(`${ofOptions} ${others}`.trim().split(/\s+/));

/** Typing errors in a name that is meant. */
const errorsMax = 3;
const warningsMax = 20;

/** Returns a warning for each variable that no program knows, with the name that is nearest. */
export function variableWarnings(env: Readonly<Record<string, string | undefined>>): string[] {
  const unknown = Object.keys(env).filter((name) => /^ORB_/i.test(name) && !known.has(name));
  return unknown.slice(0, warningsMax).map((name) => {
    const meant = name.toUpperCase().replaceAll('-', '_');
    const near = Math.min(errorsMax, (meant.length - 4) / 2);
    const advice = didYouMean(meant, known, 'see --help for the variables', near);
    return `the variable ${name.slice(0, 64)} is unknown and has no effect; ${advice}`;
  });
}
