/** The order of `--help`: usage, examples, commands, then the options in groups. Pure. */
import { type Command, Help, type Option } from 'commander';

/** Groups of options, in the order in which help shows them, and the long names of their flags. */
const groups: readonly (readonly [heading: string, names: string])[] = [
  ['Start and end:', 'seeds crawl only slaves exit-when-done every keep data out config'],
  [
    'Pages:',
    'scope include exclude max-depth max-pages order canonical traps sitemaps sitemap-since obey ' +
      'iframes ignore-refresh digest',
  ],
  [
    'Politeness:',
    'delay per-host crawl-delay-max ignore-robots politeness-group user-agent contact',
  ],
  [
    'Fetching:',
    'render header header-everywhere cookie cookie-file proxy http2 allow-private attempts redirects ' +
      'fetch-timeout connect-timeout page-bytes rule-bytes',
  ],
  ['Images:', 'images srcset lazy-attributes download max-images images-to'],
  ['Outputs:', 'output sink-backlog'],
  ['Archive:', 'archive archive-bytes archive-file-bytes save'],
  ['Work of the slave:', 'slots processes robots-only page name'],
  ['Browser:', 'browser browser-program no-sandbox'],
  [
    'Commands:',
    'allow-exec exec-folder exec-user exec-slots exec-timeout exec-cpu exec-memory exec-processes ' +
      'exec-file-size exec-disk exec-output',
  ],
  [
    'Connections and keys:',
    'master listen join-timeout authkey-file auth-digest tls no-tls tls-ca tls-cert tls-key ' +
      'connections connections-per-address',
  ],
  ['Queues of programs:', 'queues durable-put'],
  ['Resources:', 'memory-limit disk-reserve recent-urls urls-expected compact'],
  ['Log:', 'status-every json-logs log-level'],
];
const rankOf: ReadonlyMap<string, { heading: string; rank: number }> = new Map(
  groups.flatMap(([heading, names], rank) =>
    names.split(' ').map((name) => [`--${name}`, { heading, rank }] as const),
  ),
);

/** Makes `--help` of a command follow that order. */
export function orderHelp(command: Command, examples = ''): void {
  command.configureHelp({
    formatHelp: (cmd, helper) => {
      // Its groups have the order of the options themselves. Only help is printed after this.
      (cmd.options as Option[]).sort((a, b) => placeOf(a) - placeOf(b));
      for (const option of cmd.options) {
        const group = rankOf.get(option.long ?? '');
        if (group !== undefined) option.helpGroup(group.heading);
      }
      const text = Help.prototype.formatHelp.call(helper, cmd, helper);
      return withExamples(text, examples);
    },
  });
}

/** Those without a group come first. */
function placeOf(option: Option): number {
  return rankOf.get(option.long ?? '')?.rank ?? -1;
}

function withExamples(text: string, examples: string): string {
  const sections = text.trimEnd().split('\n\n');
  const isOf = (heading: string) => (section: string) => section.startsWith(heading);
  const commands = sections.filter(isOf('Commands:'));
  const options = sections.findIndex(isOf('Options:'));
  const head = sections.slice(0, options);
  const rest = sections.slice(options).filter((section) => !commands.includes(section));
  const shown = examples === '' ? [] : [examples];
  return `${[...head.slice(0, 1), ...shown, ...head.slice(1), ...commands, ...rest].join('\n\n')}\n`;
}
