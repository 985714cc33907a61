/**
 * What --include and --exclude cost a new link: as they run, and as JavaScript runs them, in turns.
 * The links are those of a made-up shop: 60 characters on average, all different.
 */
import { PatternBudget, Patterns } from '../../master/frontier/crawl/patterns.ts';
import { randomOf } from '../../selftest/site.ts';
import { median, say } from './measure.ts';

const rounds = 15;
const linksCount = 20_000;
const words =
  'news blog shop cart item tag category page archive author image media uploads 2024 product en'.split(
    ' ',
  );

function makeLinks(): string[] {
  const random = randomOf(1);
  const pick = (max: number) => Math.floor(random() * max);
  const segment = () => `/${words[pick(words.length)]}${pick(3) > 0 ? '' : `-${pick(100_000)}`}`;
  return Array.from({ length: linksCount }, () => {
    const path = Array.from({ length: 1 + pick(5) }, segment).join('');
    const query = pick(3) > 0 ? '' : `?id=${pick(100_000)}&sort=${words[pick(words.length)]}`;
    return `https://www.shop-${pick(50)}.example${path}${query}`;
  });
}

/** The kinds that operators write, 100 in all. */
const hundred = Array.from({ length: 25 }, (_, i) => [
  `/${words[i % words.length]}/${i}`,
  `\\.x${i}$`,
  `[?&]${words[i % words.length]}${i}=`,
  `^https?://[^/]*\\.site${i}\\.example/`,
]).flat();
const innocent = '^https?://.*/.*/.*/.*\\.pdf$';

export function patterns(): void {
  const links = makeLinks();
  const cases = {
    'one, of an extension': ['\\.(?:pdf|zip|jpg|png)$'],
    'one, of a folder': ['/checkout/'],
    'one, with four .*': [innocent],
    '100 of these kinds': hundred,
    '100 with four .*': hundred.map((_, i) => innocent.replace('pdf', `p${i}`)),
  };
  for (const [name, sources] of Object.entries(cases)) {
    const bar = sources.length === 1 ? 0.5 : 3;
    const natives = sources.map((source) => new RegExp(source, 'u'));
    const linear = new Patterns(sources, new PatternBudget(1 << 24));
    const figures = { native: [] as number[], linear: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      figures.native.push(cost(links, (link) => natives.some((native) => native.test(link))));
      figures.linear.push(cost(links, (link) => linear.match(link)));
    }
    say(
      `patterns, ${name}: ${median(figures.linear).toFixed(2)} CPU us a link ` +
        `(bar: ${bar}; least ${Math.min(...figures.linear).toFixed(2)}), ` +
        `as JavaScript runs them ${median(figures.native).toFixed(2)}`,
    );
  }
  const long = Array.from(
    { length: 9 },
    (_, i) => `https://site.example/${i}${'/folder'.repeat(132)}`,
  );
  const room = new PatternBudget(1 << 24);
  const linear = cost(long, (link) => new Patterns([innocent], room).match(link)) * long.length;
  const native = new RegExp(innocent, 'u');
  const one = cost(long.slice(0, 1), (link) => native.test(link));
  say(
    `patterns, 9 links of 950 characters: ${(linear / 1e3).toFixed(1)} ms, ` +
      `as JavaScript runs them ${((one * long.length) / 1e6).toFixed(1)} s`,
  );
}

/** CPU us for each link. */
function cost(links: readonly string[], matches: (link: string) => boolean): number {
  const before = process.cpuUsage();
  for (const link of links) matches(link);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / links.length;
}
