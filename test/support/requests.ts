/** Every verb with a valid request, and fields that make it invalid. Used by the conformance suite
 *  ("every wrong field is refused") and by hostile peers. */
import { pack } from './msgpack.ts';
import type { Message } from './raw-peer.ts';

const task = Buffer.alloc(26, 1);
const wrongCrawl = ['', '..', 'a/b', '-x', 'x'.repeat(65), 7, null, []].map((crawl) => ({ crawl }));
const wrongQueue = ['', '1', 'a/b', 'a b', 'x'.repeat(65), 7, null, {}].map((queue) => ({ queue }));
const wrongLease = [-1, 1.5, '1', null, undefined].map((lease) => ({ lease }));
const wrongTask = ['text', 7, null, undefined, Buffer.alloc(0), Buffer.alloc(65)].map((bytes) => ({
  task: bytes,
}));
const error = { kind: 'timeout', message: 'no answer' };
const wrongErrors = [
  'timeout',
  null,
  {},
  { kind: 'timeout' },
  { kind: 'boredom', message: '' },
  { kind: 'timeout', message: 'x'.repeat(513) },
  { ...error, more: 1 },
].map((value) => ({ error: value }));

const jobEnd = {
  outcome: 'exited',
  code: 0,
  ms: 1,
  stdout: { kept: Buffer.alloc(0), bytes: 0 },
  stderr: { kept: Buffer.alloc(0), bytes: 0 },
};

const seedRequest = { url: 'http://a/', method: 'POST', headers: [], body: Buffer.alloc(1) };

const trouble = { name: 'http://a.example:8080', reason: 'dead', forMs: 5_000 };
const asOne = (wrong: object) => [{ ...trouble, ...wrong }];

const result = {
  finalUrl: 'http://a.invalid/',
  status: 200,
  type: 'text/html',
  bytes: 1,
  ms: 1,
};
const packed = pack(result);
const wrongResults = [
  null,
  'x',
  {},
  { ...result, finalUrl: undefined },
  { ...result, finalUrl: '' },
  { ...result, finalUrl: `http://a.invalid/${'x'.repeat(4096)}` },
  { ...result, status: 1000 },
  { ...result, status: -1 },
  { ...result, status: '200' },
  { ...result, type: 'x'.repeat(257) },
  { ...result, charset: 7 },
  { ...result, bytes: -1 },
  { ...result, bytes: 1.5 },
  { ...result, ms: -1 },
  { ...result, ms: Number.NaN },
  { ...result, ms: Number.POSITIVE_INFINITY },
  { ...result, title: 'x'.repeat(1025) },
  { ...result, cut: 1 },
  { ...result, redirectedTo: '' },
  { ...result, error: 'x' },
  { ...result, linksCut: -1 },
  { ...result, imagesCut: 0.5 },
  { ...result, directives: 'noindex' },
  { ...result, directives: ['nonsense'] },
  { ...result, directives: new Array(9).fill('noindex') },
  { ...result, nofollowed: -1 },
  { ...result, refresh: '' },
  { ...result, canonical: `http://a.invalid/${'x'.repeat(4096)}` },
  { ...result, more: 1 },
].map((value) => ({ result: pack(value) }));
const image = { src: 'http://a.invalid/i.png', via: 'img', alt: '' };
const wrongImages = [
  null,
  {},
  [7],
  [null],
  [{}],
  [{ ...image, src: '' }],
  [{ ...image, src: 7 }],
  [{ ...image, src: 'x'.repeat(4097) }],
  [{ ...image, via: 'hearsay' }],
  [{ ...image, alt: 7 }],
  [{ ...image, alt: 'x'.repeat(1025) }],
  [{ ...image, more: 1 }],
  new Array(50_001).fill(image),
].map((images) => ({ images: pack(images) }));
/** Instead of a value as bytes of its own. */
const notPacked = [null, 7, 'x', {}, [], Buffer.alloc(0), Buffer.from([0xc1]), Buffer.of(0x80, 0)];
const answerHead = Buffer.from('HTTP/1.1 200 OK\r\n\r\n');
const archivedHead = {
  url: 'http://a.invalid/',
  at: 1,
  request: Buffer.from('x'),
  response: answerHead,
};
const wrongHeads = [
  ...['', 'http://a.invalid/ x', 'http://a.invalid/\r\n', 7].map((url) => ({ url })),
  ...[-1, 1.5, 1e15, '1', null].map((at) => ({ at })),
  ...['x', null, Buffer.alloc((1 << 20) + 1)].map((request) => ({ request })),
  ...['x', '', 'HTTP/1.1 200 OK\r\n', 'HTTP/2 200\r\n\r\n', 'HTTP/1.1 200\r\n\r\nx\r\n\r\n'].map(
    (text) => ({ response: Buffer.from(text) }),
  ),
  { more: 1 },
];
const earlier = { etag: '"x"', bytes: 1, images: [], links: 1 };
const wrongSpecs = [
  null,
  7,
  { more: 1 },
  { scope: 'galaxy' },
  { include: 'x' },
  { include: ['('] },
  { exclude: new Array(101).fill('x') },
  { maxDepth: -1 },
  { maxDepth: 65_536 },
  { maxPages: 0 },
  { order: 'random' },
  { delayMs: -1 },
  { delayMs: 86_400_001 },
  { perHost: 0 },
  { attemptsMax: 101 },
  { urlsExpected: 1e12 },
  { fetch: { userAgent: '' } },
  { fetch: { userAgent: 'two\nlines' } },
  { fetch: { otherUserAgents: [''] } },
  { fetch: { proxies: ['ftp://a.example/'] } },
  { fetch: { proxies: ['http://a.example/path'] } },
  { fetch: { timeoutMs: 0 } },
  { sitemaps: 'some' },
  { fetch: { obey: ['nonsense'] } },
  { fetch: { ignoreRefresh: 1 } },
  { fetch: { iframes: 'yes' } },
  { canonical: 1 },
  { fetch: { more: 1 } },
].map((spec) => ({ spec }));

export const requests: readonly {
  readonly verb: string;
  readonly good: Message;
  readonly bad: readonly Message[];
}[] = [
  { verb: 'ping', good: {}, bad: [{ count: 1 }] },
  { verb: 'bye', good: {}, bad: [{ count: 1 }] },
  {
    verb: 'task.credit',
    good: { count: 0 },
    bad: [
      ...[-1, 1.5, 4097, '1', null, undefined].map((count) => ({ count })),
      ...[-1, 4097, 'x', null].map((slots) => ({ slots })),
    ],
  },
  {
    verb: 'task.report',
    good: { task, lease: 1, result: packed, images: pack([image]), links: Buffer.alloc(0) },
    bad: [
      ...wrongTask,
      ...wrongLease,
      ...wrongResults,
      ...wrongImages,
      ...notPacked.flatMap((value) => [{ result: value }, { images: value }]),
      ...['', null, [], undefined, Buffer.alloc((16 << 20) + 1)].map((links) => ({ links })),
      ...[7, [7], [{ priority: 1 }], [{ priority: 1001, links: Buffer.alloc(0) }]].map(
        (follow) => ({
          follow,
        }),
      ),
    ],
  },
  {
    verb: 'task.sitemap',
    good: {
      task,
      lease: 1,
      kind: 'urlset',
      urls: Buffer.alloc(0),
      images: Buffer.alloc(0),
      end: { result: packed, urls: 0, images: 0 },
    },
    bad: [
      ...wrongTask,
      ...wrongLease,
      ...['', null, [], undefined, Buffer.alloc((16 << 20) + 1)].map((urls) => ({ urls })),
      ...['', null, [], undefined].map((images) => ({ images })),
      ...['', 'page', 7, null, undefined].map((kind) => ({ kind })),
      ...[null, {}, { result: packed }, { result: packed, urls: -1, images: 0 }].map((end) => ({
        end,
      })),
      ...wrongResults.map((wrong) => ({ end: { ...wrong, urls: 0, images: 0 } })),
    ],
  },
  {
    verb: 'task.release',
    good: { task, lease: 1, error },
    bad: [
      ...wrongTask,
      ...wrongLease,
      ...wrongErrors,
      ...[-1, 1.5, 86_400_001, '1', null].map((retryAfterMs) => ({ retryAfterMs })),
    ],
  },
  {
    verb: 'task.extend',
    good: { leases: [1] },
    bad: [null, 7, undefined, [-1], ['x'], new Array(4097).fill(1)].map((leases) => ({ leases })),
  },
  {
    verb: 'images.state',
    good: { folders: [{ folder: '/mnt/images', reason: 'ENOSPC: no space left on device' }] },
    bad: [
      ...[null, 7, undefined, [null], new Array(101).fill({ folder: '/a', reason: 'b' })],
      ...[{ folder: '' }, { folder: 'a\nb' }, { folder: 'x'.repeat(1025) }, { other: 1 }].map(
        (wrong) => [{ folder: '/a', reason: 'b', ...wrong }],
      ),
      [{ folder: '/a', reason: 'x'.repeat(513) }],
    ].map((folders) => ({ folders })),
  },
  {
    verb: 'proxy.state',
    good: { proxies: [trouble] },
    bad: [
      ...[null, 7, undefined, [null], new Array(101).fill(trouble)],
      ...[{ name: '' }, { name: 'a\nb' }, { name: 'a\x1b[2J' }, { name: 'x'.repeat(301) }].map(
        asOne,
      ),
      ...[{ reason: '' }, { reason: 'a\u202eb' }, { reason: 'x'.repeat(201) }].map(asOne),
      ...[{ forMs: -1 }, { forMs: 1.5 }, { forMs: 86_400_001 }, { other: 1 }].map(asOne),
    ].map((proxies) => ({ proxies })),
  },
  {
    verb: 'crawl.add',
    good: { crawl: 'conformance-never', seeds: [] },
    bad: [
      ...wrongCrawl,
      ...wrongSpecs,
      ...[null, 'x', [7], [''], ['x'.repeat(4097)], new Array(10_001).fill('x')].map((seeds) => ({
        seeds,
      })),
      ...[-1001, 1001, 1.5, '1', null].map((priority) => ({ priority })),
      ...[
        null,
        [7],
        [{ ...seedRequest, method: 'PUT' }],
        [{ ...seedRequest, body: 'text' }],
        [{ ...seedRequest, body: Buffer.alloc(65_537) }],
        [{ ...seedRequest, headers: [['host', 'x']] }],
        [{ ...seedRequest, headers: [['x-a', 'a\r\nb']] }],
        new Array(257).fill(seedRequest),
      ].map((requests) => ({ requests })),
    ],
  },
  {
    verb: 'crawl.recrawl',
    good: { crawl: 'conformance-never', urls: [] },
    bad: [
      ...wrongCrawl,
      ...wrongSpecs,
      ...[null, 'x', ['x'], [{ url: 'x' }], [{ url: '', depth: 0 }], [{ url: 'x', depth: -1 }]].map(
        (urls) => ({ urls }),
      ),
      ...[null, { etag: 7 }, { ...earlier, images: 7 }, { ...earlier, more: 1 }].map((page) => ({
        urls: [{ url: 'x', depth: 0, page }],
      })),
    ],
  },
  {
    verb: 'crawl.list',
    good: { states: ['running'], limit: 2, after: Buffer.alloc(7) },
    bad: [{ crawl: 1 }, { states: ['x'] }, { limit: -1 }, { limit: 1001 }, { name: 'x' }],
  },
  {
    verb: 'crawl.failed',
    good: { crawl: 'conformance-never', kinds: ['dns'] },
    bad: [...wrongCrawl, { limit: 0 }, { limit: 1001 }, { after: 'x' }, { kinds: ['x'] }],
  },
  { verb: 'crawl.verify', good: { crawl: 'conformance-never' }, bad: wrongCrawl },
  {
    verb: 'crawl.why',
    good: { crawl: 'conformance-never', url: 'http://conformance.invalid/' },
    bad: [...wrongCrawl, { url: '' }, { url: 1 }, { after: 'x' }],
  },
  {
    verb: 'host.list',
    good: { sort: 'slow', limit: 2 },
    bad: [{ crawl: 1 }, { sort: 'x' }, { limit: 0 }, { limit: 1001 }, { after: 'x' }],
  },
  {
    verb: 'host.set',
    good: { host: 'conformance.invalid', delayMs: null },
    bad: [{ host: '' }, { host: 1 }, { delayMs: -1 }, { blocked: 1 }, { wake: 'yes' }],
  },
  { verb: 'slave.list', good: { limit: 1 }, bad: [{ limit: 0 }, { limit: 1001 }, { after: -1 }] },
  {
    verb: 'task.archive',
    good: { task, lease: 1, part: 0, head: archivedHead, body: Buffer.from('x'), end: 'whole' },
    bad: [
      ...wrongTask,
      ...wrongLease,
      ...[-1, 1.5, 'x', null, undefined].map((part) => ({ part })),
      ...wrongHeads.map((wrong) => ({ head: { ...archivedHead, ...wrong } })),
      ...[null, 7, 'x'].map((head) => ({ head })),
      ...[null, 'x', undefined, Buffer.alloc((256 << 10) + 1)].map((body) => ({ body })),
      ...['bored', null, 7].map((end) => ({ end })),
    ],
  },
  {
    verb: 'task.image',
    good: { task, lease: 1, result: packed, image: pack({ type: 'png' }), sent: true },
    bad: [
      ...wrongTask,
      ...wrongLease,
      ...[null, 7, 'x', undefined].map((bytes) => ({ result: bytes })),
      ...[null, 7, {}].map((image) => ({ image })),
      ...[false, 1, null].map((sent) => ({ sent })),
    ],
  },
  {
    verb: 'task.known',
    good: { task, lease: 1, digest: Buffer.alloc(32) },
    bad: [
      ...wrongTask,
      ...wrongLease,
      ...[null, 'x', undefined, Buffer.alloc(31)].map((digest) => ({ digest })),
    ],
  },
  {
    verb: 'task.content',
    good: { task, lease: 1, part: 1, body: Buffer.from('x') },
    bad: [
      ...wrongTask,
      ...wrongLease,
      ...[-1, 1.5, 'x', null, undefined].map((part) => ({ part })),
      ...[null, 'x', undefined, Buffer.alloc((1 << 20) + 1)].map((body) => ({ body })),
    ],
  },
  {
    verb: 'slave.state',
    good: { version: '1', memoryBytes: 1, fetching: 0 },
    bad: [{ version: '' }, { version: '\u001b[2J' }, { memoryBytes: -1 }, { fetching: 5_000 }],
  },
  {
    verb: 'slave.can',
    good: { what: ['rules', 'more'] },
    bad: [{ what: 'rules' }, { what: [1] }, { what: ['x'.repeat(33)] }, { what: undefined }],
  },
  {
    verb: 'login.failed',
    good: { crawl: 4_294_967_295, round: 1, why: 'no form' },
    bad: [
      { crawl: 'x' },
      { crawl: -1 },
      { round: undefined },
      { why: 'a\u001b[2J' },
      { why: 'x'.repeat(513) },
    ],
  },
  { verb: 'crawl.pause', good: { crawl: 'conformance-never' }, bad: wrongCrawl },
  { verb: 'crawl.resume', good: { crawl: 'conformance-never' }, bad: wrongCrawl },
  { verb: 'crawl.cancel', good: { crawl: 'conformance-never' }, bad: wrongCrawl },
  {
    verb: 'crawl.remove',
    good: { crawl: 'conformance-never', files: true },
    bad: [...wrongCrawl, { crawl: 'a', files: 1 }],
  },
  {
    verb: 'crawl.rename',
    good: { crawl: 'conformance-never', to: 'conformance-no-more' },
    bad: [...wrongCrawl, ...['', '..', 'a/b', 7, null].map((to) => ({ crawl: 'a', to }))],
  },
  {
    verb: 'crawl.sinks',
    good: { crawl: 'conformance-never', drop: 'csv' },
    bad: [...wrongCrawl, ...['', 7, null].map((drop) => ({ crawl: 'a', drop }))],
  },
  { verb: 'crawl.rotate', good: { crawl: 'conformance-never' }, bad: wrongCrawl },
  {
    verb: 'crawl.set',
    good: { crawl: 'conformance-never', spec: { maxPages: 1, delayMs: null } },
    bad: [...wrongCrawl, ...[null, 7, 'x', undefined].map((spec) => ({ spec }))],
  },
  {
    verb: 'crawl.buried',
    good: { crawl: 'conformance-never' },
    bad: [
      ...wrongCrawl,
      ...[0, 1001, 1.5, 'x', null].map((limit) => ({ limit })),
      ...['x', 7, null].map((after) => ({ after })),
    ],
  },
  {
    verb: 'crawl.replay',
    good: { crawl: 'conformance-never' },
    bad: [...wrongCrawl, ...['', 7, null, 'x'.repeat(4097)].map((url) => ({ url }))],
  },
  {
    verb: 'backup',
    // Refused where it is there already: the answer is what counts.
    good: { name: 'conformance' },
    bad: wrongCrawl.map(({ crawl }) => ({ name: crawl })),
  },
  {
    verb: 'queue.put',
    good: { queue: 'q', items: [Buffer.from([1])] },
    bad: [
      ...wrongQueue,
      ...[null, [], ['text'], [7], Buffer.alloc(1), [Buffer.alloc((1 << 20) + 1)]].map((items) => ({
        items,
      })),
      { items: new Array(10_001).fill(Buffer.from([1])) },
    ],
  },
  {
    verb: 'queue.get',
    good: { queue: 'q' },
    bad: [
      ...wrongQueue,
      ...[0, -1, 1.5, 10_001, 'x', null].map((count) => ({ count })),
      ...[-1, 1.5, 3_600_001, 'x', null].map((waitMs) => ({ waitMs })),
      ...[0, 1.5, 86_400_001, 'x', null].map((holdMs) => ({ holdMs })),
      ...[0, 1.5, 1_001, 'x', null].map((attempts) => ({ attempts })),
    ],
  },
  {
    verb: 'queue.done',
    good: { queue: 'q', items: [] },
    bad: [
      ...wrongQueue,
      ...[null, 7, [-1], ['x'], [1.5], new Array(10_001).fill(1)].map((items) => ({ items })),
    ],
  },
  {
    verb: 'queue.release',
    good: { queue: 'q', items: [] },
    bad: [
      ...wrongQueue,
      ...[null, 7, [-1], ['x'], [1.5], new Array(10_001).fill(1)].map((items) => ({ items })),
      ...[-1, 1.5, 2_592_000_001, 'x', null].map((delayMs) => ({ delayMs })),
    ],
  },
  { verb: 'queue.size', good: { queue: 'q' }, bad: wrongQueue },
  {
    verb: 'job.add',
    // Refused where no slave takes commands: the answer is what counts.
    good: { program: '/bin/no-such-program', args: [] },
    bad: [
      ...[
        '',
        'date',
        '/',
        '/bin/../x',
        '/bin//x',
        '/bin/',
        './x',
        7,
        null,
        `/${'x'.repeat(1024)}`,
      ].map((program) => ({ program })),
      ...['', '.x', '../x', 'a/b', 'a b', 7, 'x'.repeat(65)].map((script) => ({
        script,
        program: undefined,
      })),
      { script: 'both' },
      { program: undefined },
      ...[null, 'x', [7], ['a\0b'], ['x'.repeat(65_536)], new Array(1_001).fill('')].map(
        (args) => ({
          args,
        }),
      ),
      ...['', 'x'.repeat(65), '\n', 7].map((on) => ({ on })),
      ...[-1, 101, 1.5, '1'].map((retries) => ({ retries })),
      ...[0, -1, 1.5, 604_800_001].map((timeoutMs) => ({ timeoutMs })),
      ...['yes', 1].flatMap((flag) => [{ waits: flag }, { watch: flag }]),
    ],
  },
  {
    verb: 'job.watch',
    good: { jobs: [1] },
    bad: [null, [], ['1'], [0], [1.5], new Array(10_001).fill(1)].map((jobs) => ({ jobs })),
  },
  {
    verb: 'job.list',
    good: {},
    bad: [
      ...[['boring'], 'ended', [7]].map((states) => ({ states })),
      ...[0, 1_001, 1.5].map((limit) => ({ limit })),
      ...[-1, 'x'].map((after) => ({ after })),
    ],
  },
  { verb: 'job.get', good: { job: 1 }, bad: [0, -1, 1.5, '1', null].map((job) => ({ job })) },
  { verb: 'job.cancel', good: { job: 1 }, bad: [0, -1, 1.5, '1', null].map((job) => ({ job })) },
  {
    verb: 'exec.can',
    good: { instance: Buffer.alloc(16), slots: 0, programs: [], scripts: [] },
    bad: [
      ...['x', null, Buffer.alloc(15)].map((instance) => ({ instance })),
      ...[-1, 257, 1.5].map((slots) => ({ slots })),
      ...[null, 'x', ['x'], new Array(201).fill('/x')].map((programs) => ({ programs })),
      ...[null, ['../x'], new Array(1_001).fill('x')].map((scripts) => ({ scripts })),
      ...[null, [7], [Buffer.alloc(1)]].map((held) => ({ held })),
    ],
  },
  {
    verb: 'exec.output',
    good: { lease: Buffer.alloc(16), stream: 'stdout', at: 0, data: Buffer.alloc(1) },
    bad: [
      ...[7, null, Buffer.alloc(1)].map((lease) => ({ lease })),
      ...['stdin', 7].map((stream) => ({ stream })),
      ...[-1, 1.5].map((at) => ({ at })),
      ...['text', 7].map((data) => ({ data })),
    ],
  },
  {
    verb: 'exec.report',
    good: { lease: Buffer.alloc(16), end: jobEnd },
    bad: [
      ...[7, null, Buffer.alloc(1)].map((lease) => ({ lease })),
      ...[
        null,
        {},
        { ...jobEnd, outcome: 'bored' },
        { ...jobEnd, code: 256 },
        { ...jobEnd, ms: -1 },
      ],
      ...[
        { ...jobEnd, stdout: 7 },
        { ...jobEnd, signal: 'x' },
        { ...jobEnd, reason: 'x'.repeat(513) },
      ],
    ].map((wrong) => (wrong !== null && 'lease' in wrong ? wrong : { end: wrong })),
  },
];
