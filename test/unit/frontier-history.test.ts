/**
 * Random histories of the frontier against a plain model: slaves that report, fail, release,
 * vanish, come late or twice, and a master that crashes or stops at any point. In each history,
 * at the end every page of the site was written once, and nothing else.
 */
import assert from 'node:assert/strict';
import test, { mock } from 'node:test';
import fc from 'fast-check';
import type { Lease } from '../../master/frontier/dispatch/leases.ts';
import { Breaker } from '../../master/frontier/politeness/breaker.ts';
import type { FakeSlave } from '../support/fake-slave.ts';
import { type Bounds, type Found, leaseMs, reportOf, World } from '../support/world.ts';

type Site = {
  /** By number: what a fetch of the page gives. */
  readonly pages: readonly {
    readonly links: readonly number[];
    readonly redirect: number | undefined;
    readonly kind: 'page' | 'missing' | 'down' | 'shaky';
  }[];
};

type Step = { readonly kind: (typeof stepKinds)[number]; readonly pick: number };
const stepKinds = [
  ...([
    'report',
    'report',
    'report',
    'report',
    'fail',
    'release',
    'twice',
    'late',
    'vanish',
  ] as const),
  ...(['join', 'expire', 'turn', 'wait', 'crash', 'stop', 'seed', 'burst', 'pause'] as const),
] as const;

const pageCount = 24;
const attemptsMax = 40;

const site: fc.Arbitrary<Site> = fc.record({
  pages: fc.array(
    fc.record({
      links: fc.array(fc.nat(pageCount - 1), { maxLength: 5 }),
      redirect: fc.option(fc.nat(pageCount - 1), { nil: undefined, freq: 5 }),
      kind: fc.constantFrom('page', 'page', 'page', 'missing', 'down', 'shaky'),
    }),
    { minLength: pageCount, maxLength: pageCount },
  ),
});
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({ kind: fc.constantFrom(...stepKinds), pick: fc.nat(1000) }),
  { minLength: 5, maxLength: 50 },
);
/** All new tasks wait to be sorted, but for three of them. */
const unsorted = { hostsMin: 0, perHost: 100, countMax: 3 };
/** The three hosts are in memory, or all but one of them are parked in turn. */
const bounds: fc.Arbitrary<Bounds> = fc.constantFrom(
  { queuesMax: 1_000, tasksMax: 1_000_000 },
  { queuesMax: 2, tasksMax: 0 },
  { queuesMax: 1, tasksMax: 0 },
  { queuesMax: 1_000, tasksMax: 0, dueMin: 1 },
  { queuesMax: 1_000, tasksMax: 1_000_000, unsorted },
  { queuesMax: 1, tasksMax: 0, unsorted },
);

const urlOf = (page: number) => `http://h${page % 3}.example/${page}`;
const pageOf = (url: string) => Number(url.split('/').at(-1));

/** Where a fetch of a page ends: redirects stay on their host and go to a page without one. */
function targetOf({ pages }: Site, page: number): number {
  const redirect = pages[page]?.redirect ?? page;
  const target = pages[redirect];
  const isTaken =
    redirect % 3 === page % 3 && target?.kind === 'page' && target.redirect === undefined;
  return isTaken && pages[page]?.kind !== 'down' ? redirect : page;
}

function foundOn(
  site: Site,
  page: number,
): Pick<Found, 'finalUrl' | 'status' | 'links' | 'images'> {
  const target = targetOf(site, page);
  const { links = [], kind } = site.pages[target] ?? {};
  return {
    finalUrl: urlOf(target),
    status: kind === 'missing' ? 404 : 200,
    links: links.map(urlOf),
    images: [`http://i.example/${target % 5}.png`, `http://i.example/own-${target}.png`],
  };
}

/** All that a crawl from these seeds has to end with. */
function expected(site: Site, seeds: readonly number[]) {
  const known = new Set<number>();
  const open = [...seeds];
  for (let page = open.pop(); page !== undefined; page = open.pop()) {
    if (known.has(page)) continue;
    known.add(page);
    if (site.pages[page]?.kind === 'down') continue;
    const target = targetOf(site, page);
    open.push(target, ...(site.pages[target]?.links ?? []));
  }
  const kindOf = (page: number) => site.pages[page]?.kind;
  const all = [...known];
  const pages = all.filter((page) => {
    const isGood = kindOf(page) === 'page' || kindOf(page) === 'shaky';
    return isGood && targetOf(site, page) === page;
  });
  return { known: all, pages, down: all.filter((page) => kindOf(page) === 'down') };
}

class History {
  readonly world: World;
  readonly #site: Site;
  readonly #seeds = new Set<number>();
  #slaves: FakeSlave[] = [];
  /** Leases whose fetch is done, to be reported again some day. */
  readonly #old: { slave: FakeSlave; lease: Lease }[] = [];

  constructor(site: Site, bounds: Bounds) {
    this.world = new World(undefined, bounds);
    // The links found before a host counts as dead depend on free slots: not a thing for a model.
    if (bounds.queuesMax < 3) mock.method(Breaker.prototype, 'dead', () => undefined);
    this.#site = site;
  }

  async seed(page: number): Promise<void> {
    await this.world.seed([urlOf(page)], { scope: 'any', attemptsMax });
    this.#seeds.add(page);
  }

  async step({ kind, pick }: Step): Promise<void> {
    const { world } = this;
    const leases = this.#slaves.flatMap((slave) =>
      [...slave.leases].map((lease) => ({ slave, lease })),
    );
    const held = leases[pick % Math.max(1, leases.length)];
    const old = this.#old[pick % Math.max(1, this.#old.length)];
    const slave = this.#slaves[pick % Math.max(1, this.#slaves.length)];
    switch (kind) {
      case 'report':
        if (held) this.#report(held.slave, held.lease);
        break;
      case 'burst':
        for (const each of leases) this.#report(each.slave, each.lease);
        break;
      case 'twice':
        if (held) for (let i = 0; i < 2; i++) this.#report(held.slave, held.lease);
        break;
      case 'late':
        if (old) this.#report(old.slave, old.lease);
        break;
      case 'fail':
        if (held) this.#fail(held.slave, held.lease);
        break;
      case 'release':
        if (held) world.rooms.dispatcher.release(held.lease);
        break;
      case 'vanish':
        if (slave) this.#vanish(slave);
        break;
      case 'join':
        if (this.#slaves.length < 4) this.#join(1 + (pick % 6));
        break;
      case 'expire':
        this.#old.push(...leases);
        await world.advance(leaseMs + 2_000);
        break;
      case 'wait':
        await world.advance(pick * 10);
        break;
      case 'turn':
        await world.settle(1 + (pick % 4));
        break;
      case 'crash':
        this.#old.push(...leases);
        this.#slaves = [];
        world.crash(pick % 3);
        break;
      case 'stop':
        this.#old.push(...leases);
        this.#slaves = [];
        await world.reopen();
        break;
      case 'pause':
        if (world.crawl().state === 'finished') break;
        if (pick % 2 === 0) await world.done(world.frontier.pause('default'));
        else await world.done(world.frontier.resume('default'));
        break;
      case 'seed':
        await this.seed(pick % pageCount);
        break;
      default:
        kind satisfies never;
    }
    this.#check();
  }

  /** From now on all goes well, until the crawl is done. */
  async finish(): Promise<void> {
    const { world } = this;
    await world.settle();
    await world.done(world.frontier.resume('default'));
    this.#join(50);
    for (let round = 0; world.crawl().state !== 'finished'; round++) {
      assert.ok(round < 400, `it never ends: ${world.waitingUrls()}`);
      await world.settle();
      for (const slave of this.#slaves) {
        for (const lease of slave.leases) {
          const isDown = this.#site.pages[pageOf(lease.task.url)]?.kind === 'down';
          if (isDown) this.#fail(slave, lease);
          else this.#report(slave, lease);
        }
      }
      await world.settle();
      if (world.rooms.dispatcher.leaseCount === 0) await world.advance(400_000);
      // A lease of just before has run out; a heartbeat says that its slave works all the same.
      for (const slave of this.#slaves) world.frontier.heard(slave);
    }
    this.#checkEnd();
  }

  #report(slave: FakeSlave, lease: Lease): void {
    const page = pageOf(lease.task.url);
    if (this.#site.pages[page]?.kind === 'down') return;
    this.#old.push({ slave, lease });
    const { url } = lease.task;
    void this.world.frontier.report(lease, reportOf(url, foundOn(this.#site, page)));
  }

  #fail(slave: FakeSlave, lease: Lease): void {
    const error = { kind: 'connect', message: 'down' } as const;
    this.#old.push({ slave, lease });
    void this.world.frontier.release(lease, { error });
  }

  #vanish(slave: FakeSlave): void {
    this.#old.push(...[...slave.leases].map((lease) => ({ slave, lease })));
    this.world.frontier.leave(slave);
    this.#slaves = this.#slaves.filter((other) => other !== slave);
  }

  #join(credit: number): void {
    this.#slaves.push(this.world.slave(`slave ${this.#slaves.length}`, credit));
  }

  /** Invariants. */
  #check(): void {
    const urls = this.#slaves.flatMap((slave) => slave.urls);
    assert.equal(new Set(urls).size, urls.length, 'one URL is leased once at a time');
    const crawl = this.world.crawl();
    assert.ok(crawl.open.leased >= 0 && crawl.open.offered >= 0 && crawl.open.waiting >= 0);
    const held = this.#slaves.reduce((sum, { leases }) => sum + leases.size, 0);
    assert.equal(crawl.open.leased, held);
    assert.equal(this.world.rooms.dispatcher.leaseCount, held);
    const { queues } = this.world.rooms.crawls;
    assert.equal(queues.count, crawl.queues.size);
  }

  #checkEnd(): void {
    const { world } = this;
    const { known, pages, down } = expected(this.#site, [...this.#seeds]);
    const lines = world.lines();
    const once = (values: readonly number[], name: string) =>
      assert.deepEqual(values.toSorted(byNumber), [...new Set(values)].sort(byNumber), name);
    const written = lines.filter(({ images }) => images).map((line) => pageOf(line.finalUrl ?? ''));
    once(
      lines.map(({ url }) => pageOf(url)),
      'a URL has one line',
    );
    once(written, 'a page has one line');
    assert.deepEqual(written.sort(byNumber), pages.toSorted(byNumber), 'every page is there');
    const given = lines
      .filter(({ error }) => error?.kind === 'connect')
      .map(({ url }) => pageOf(url));
    assert.deepEqual(given.sort(byNumber), down.toSorted(byNumber), 'every bad URL is buried');
    assert.deepEqual(world.images().length, new Set(world.images()).size, 'an image comes once');
    const images = new Set(pages.flatMap((page) => foundOn(this.#site, page).images));
    assert.deepEqual(new Set(world.images()), images, 'every image is there');
    const { counters } = world.crawl();
    assert.deepEqual(world.waitingUrls(), []);
    assert.equal(counters.waiting, 0);
    assert.equal(counters.known, known.length);
    assert.equal(counters.pages, pages.length);
    assert.equal(counters.images, images.size);
    assert.equal(counters.buried, down.length);
    assert.equal(counters.seen, world.seenKeys().length);
  }
}

const byNumber = (a: number, b: number) => a - b;

/** The commit of a report reaches the disk at the moment of the crash. */
const crashAtCommit: [Site, Step[], Bounds] = [
  {
    pages: Array.from({ length: pageCount }, () => {
      return { links: [], redirect: undefined, kind: 'page' };
    }),
  },
  (['join', 'seed', 'report', 'turn', 'crash'] as const).map((kind, at) => {
    return { kind, pick: at === 4 ? 1 : 0 };
  }),
  { queuesMax: 1_000, tasksMax: 1_000_000 },
];

test('frontier: whatever happens, every page is written once', async () => {
  await fc.assert(
    fc.asyncProperty(site, steps, bounds, async (pages, history, bound) => {
      const run = new History(pages, bound);
      try {
        await run.seed(0);
        for (const step of history) await run.step(step);
        await run.finish();
      } finally {
        run.world.close();
      }
    }),
    { numRuns: 30, examples: [crashAtCommit] },
  );
});
