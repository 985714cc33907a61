/** The contract of every sink under the result queue of a master. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import fc from 'fast-check';
import { type SinkKind, UnavailableError } from '../../master/sinks/sink.ts';
import { contentOf } from '../../master/store/result-rows.ts';
import { ConfigError } from '../../shared/errors.ts';
import { ArrayKind, Crash, SinkRig } from '../support/sink-rig.ts';

type SinkUnderTest = {
  readonly kind: SinkKind;
  /** URLs of the records of kind `other` that stand in its target, in their order. */
  urls(): string[] | Promise<string[]>;
  /** Several crawls write to it: it may be there already. */
  readonly isShared?: true;
  /** Faults of the target that can be made good: each holds the crawl. None: what it has written
   *  is left alone. */
  readonly harms: readonly {
    readonly what: string;
    harm(): void | Promise<void>;
    mend(): void | Promise<void>;
  }[];
};

const crawl = { name: 'default', uid: Buffer.alloc(16, 9) };
const urlsOf = ({ target = [] }: ArrayKind) =>
  target.map((section) => contentOf(section).record.url);
const numbered = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => `http://a.example/${from + i}`);

export function sinkContract(
  name: string,
  open: (t: TestContext) => SinkUnderTest,
  isReal = false,
): void {
  const contract = (
    behaviour: string,
    run: (sink: SinkUnderTest, t: TestContext) => Promise<void>,
  ) => test(`sink: ${name}: ${behaviour}`, (t) => run(open(t), t));

  contract('has every record once, in order, and the rows leave the store', async (sink, t) => {
    const rig = new SinkRig(t, [sink.kind], { isReal });
    for (let i = 0; i < 150; i += 3) await rig.offer(...numbered(i, i + 3));
    await rig.until(() => rig.crawl.unwritten === 0);
    await rig.close();
    assert.deepEqual(await sink.urls(), numbered(0, 150));
    assert.equal(rig.rows, 0);
  });

  contract('goes on where it was after an orderly stop', async (sink, t) => {
    const rig = new SinkRig(t, [sink.kind], { isReal });
    for (let i = 0; i < 5; i++) {
      await rig.offer(...numbered(2 * i, 2 * i + 2));
      await rig.close();
      await rig.restart();
    }
    await rig.close();
    assert.deepEqual(await sink.urls(), numbered(0, 10));
  });

  contract('a crash between a write and its cursor leaves nothing twice', async (sink, t) => {
    const rig = new SinkRig(t, [sink.kind], { isReal });
    await rig.offer(...numbered(0, 2));
    await rig.until(() => rig.crawl.unwritten === 0);
    rig.behind = () => {
      throw new Crash();
    };
    await rig.offer(...numbered(2, 5));
    await rig.until(() => rig.errors.length > 0);
    assert.ok(rig.errors[0] instanceof Crash);
    rig.behind = () => {};
    await rig.restart();
    await rig.offer(...numbered(5, 6));
    await rig.until(() => rig.crawl.unwritten === 0);
    await rig.close();
    assert.deepEqual(await sink.urls(), numbered(0, 6));
  });

  contract('crashes at any time lose nothing and write nothing twice', async (_, t) => {
    const steps = fc.array(fc.constantFrom('offer', 'before', 'behind', 'restart'), {
      maxLength: 24,
    });
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const sink = open(t);
        const rig = new SinkRig(t, [sink.kind], { isReal });
        let offered = 0;
        for (const step of all) {
          const crash = () => {
            throw new Crash();
          };
          if (step === 'before') rig.before = crash;
          if (step === 'behind') rig.behind = crash;
          await rig.offer(...numbered(offered, offered + 2));
          offered += 2;
          await rig.until(() => rig.crawl.unwritten === 0 || rig.errors.length > 0);
          rig.before = rig.behind = () => {};
          if (rig.errors.length > 0 || step === 'restart') await rig.restart();
        }
        await rig.until(() => rig.crawl.unwritten === 0);
        await rig.close();
        assert.deepEqual(await sink.urls(), numbered(0, offered));
      }),
      { numRuns: isReal ? 4 : 20 },
    );
  });

  contract('a target that is not what it left holds the crawl, until it is back', async (_, t) => {
    for (const { what } of open(t).harms) {
      const sink = open(t);
      const harm = sink.harms.find((one) => one.what === what);
      const other = new ArrayKind();
      const rig = new SinkRig(t, [sink.kind, other], { isReal });
      await rig.offer(...numbered(0, 3));
      await rig.until(() => rig.crawl.unwritten === 0);
      await harm?.harm();
      await rig.offer(...numbered(3, 5));
      await rig.until(() => rig.held.length > 0);
      await rig.until(() => urlsOf(other).length === 5);
      assert.equal(rig.rows, 1, `${what}: its rows stay`);
      await assert.rejects(rig.resume(), /stays held/, what);
      await harm?.mend();
      await rig.resume();
      await rig.until(() => rig.crawl.unwritten === 0);
      await rig.close();
      assert.deepEqual([await sink.urls(), rig.rows], [numbered(0, 5), 0], what);
    }
  });

  contract('a resume while it is away holds nothing, and it is tried again', async (sink, t) => {
    const rig = new SinkRig(t, [sink.kind], { isReal });
    rig.before = async () => {
      // Longer than until the next try, which comes in the middle of the resume.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      throw new UnavailableError('it is away');
    };
    await rig.offer(...numbered(0, 3));
    await rig.until(() => rig.said.length > 0);
    await rig.resume();
    assert.deepEqual(rig.held, []);
    rig.before = () => {};
    await rig.until(() => rig.crawl.unwritten === 0);
    await rig.close();
    assert.equal(rig.said.length, 2);
    assert.deepEqual(await sink.urls(), numbered(0, 3));
  });

  contract('a start finds a target that is not what it left, and leaves it so', async (_, t) => {
    for (const { what } of open(t).harms) {
      const sink = open(t);
      const harm = sink.harms.find((one) => one.what === what);
      const first = await sink.kind.open(crawl, undefined);
      await first.close();
      const rig = new SinkRig(t, [sink.kind], { isReal });
      await rig.offer(...numbered(0, 3));
      await rig.close();
      await harm?.harm();
      await rig.restart();
      assert.equal(rig.held.length, 1, what);
      await harm?.mend();
      await rig.resume();
      await rig.offer(...numbered(3, 4));
      await rig.until(() => rig.crawl.unwritten === 0);
      await rig.close();
      assert.deepEqual(await sink.urls(), numbered(0, 4), what);
    }
  });

  contract('a target that is lost can be begun anew', async (_, t) => {
    for (const { what } of open(t).harms) {
      const sink = open(t);
      const rig = new SinkRig(t, [sink.kind], { isReal });
      await rig.offer(...numbered(0, 3));
      await rig.until(() => rig.crawl.unwritten === 0);
      await sink.harms.find((one) => one.what === what)?.harm();
      await rig.offer(...numbered(3, 5));
      await rig.until(() => rig.held.length > 0);
      const { begun } = await rig.resume(true);
      assert.ok(begun.length > 0, what);
      await rig.until(() => rig.crawl.unwritten === 0);
      await rig.close();
      assert.deepEqual(await sink.urls(), numbered(3, 5), what);
    }
  });

  contract('a full disk is waited for', async (sink, t) => {
    let refusals = 0;
    const room = {
      isShort: false,
      hasRoom: () => false,
      room: () => {
        room.isShort = false;
        return Promise.resolve();
      },
      refused: () => {
        room.isShort = true;
        if (++refusals === 5) rig.before = () => {};
      },
    };
    const rig = new SinkRig(t, [sink.kind], { room, isReal });
    rig.before = () => {
      throw Object.assign(new Error('full'), { code: 'ENOSPC' });
    };
    await rig.offer(...numbered(0, 3));
    await rig.until(() => rig.crawl.unwritten === 0);
    await rig.close();
    assert.equal(refusals, 5);
    assert.deepEqual(await sink.urls(), numbered(0, 3));
  });

  contract('a slow one holds up what is fetched, and not the other sinks', async (sink, t) => {
    const other = new ArrayKind();
    const rig = new SinkRig(t, [sink.kind, other], { waitingBytesMax: () => 500, isReal });
    const waiting: (() => void)[] = [];
    rig.before = (kind) =>
      kind === other.name ? undefined : new Promise((resolve) => waiting.push(resolve));
    for (let i = 0; i < 100; i++) await rig.offer(...numbered(i, i + 1));
    await rig.until(() => urlsOf(other).length === 100);
    assert.ok(rig.queue.isFull);
    assert.equal(rig.rows, 100, 'a row stays until the slowest has it');
    rig.before = () => {};
    for (const resolve of waiting) resolve();
    await rig.until(() => rig.crawl.unwritten === 0);
    assert.ok(!rig.queue.isFull);
    await rig.close();
    assert.deepEqual([await sink.urls(), urlsOf(other)], [numbered(0, 100), numbered(0, 100)]);
  });

  // An hour of real time is too long.
  if (!isReal)
    contract('one that refuses for an hour is tried again, others go on', async (sink, t) => {
      const other = new ArrayKind();
      const rig = new SinkRig(t, [sink.kind, other], { backlogBytesMax: 2_000 });
      let tries = 0;
      rig.before = (kind) => {
        if (kind === other.name) return;
        tries++;
        throw new UnavailableError('no route to the database');
      };
      await rig.offer(...numbered(0, 2));
      await rig.until(() => rig.said.length > 0);
      assert.deepEqual(rig.said, [`${sink.kind.name} away`]);
      for (let i = 2; i < 60; i++) await rig.offer(...numbered(i, i + 1));
      assert.match(rig.held[0] ?? '', /no route to the database/, 'too much waits');
      let turns = 0;
      // Steps of ten seconds.
      await rig.until(() => turns++ > 360, 10_000);
      assert.ok(tries > 10 && tries < 100, `${tries} tries`);
      assert.equal(urlsOf(other).length, 60);
      assert.ok(!rig.queue.isFull, 'what waits for it is in the store alone');
      rig.before = () => {};
      await rig.until(() => rig.crawl.unwritten === 0);
      assert.deepEqual(rig.said, [`${sink.kind.name} away`, `${sink.kind.name} back`, 'released']);
      await rig.close();
      assert.deepEqual([await sink.urls(), rig.rows], [numbered(0, 60), 0]);
    });

  contract('two at different speeds are exact over a restart', async (sink, t) => {
    const other = new ArrayKind();
    const rig = new SinkRig(t, [sink.kind, other], { isReal });
    rig.before = (kind) => {
      if (kind === sink.kind.name) throw new UnavailableError('later');
    };
    await rig.offer(...numbered(0, 4));
    await rig.until(() => urlsOf(other).length === 4);
    await rig.settle();
    await rig.close();
    rig.before = () => {};
    await rig.restart();
    await rig.offer(...numbered(4, 6));
    await rig.until(() => rig.crawl.unwritten === 0);
    await rig.close();
    assert.deepEqual([await sink.urls(), urlsOf(other)], [numbered(0, 6), numbered(0, 6)]);
    assert.equal(rig.rows, 0);
  });

  contract('what a cancelled crawl cannot write any more is dropped', async (_, t) => {
    const [first] = open(t).harms;
    if (first === undefined) return;
    const sink = open(t);
    const rig = new SinkRig(t, [sink.kind], { isReal });
    await rig.offer(...numbered(0, 1));
    await rig.until(() => rig.crawl.unwritten === 0);
    await sink.harms.find(({ what }) => what === first?.what)?.harm();
    await rig.offer(...numbered(1, 2));
    await rig.until(() => rig.held.length > 0);
    rig.crawl.state = 'cancelled';
    rig.crawl.isOpen = false;
    let isOver = false;
    void rig.queue.giveUp(rig.crawl).then(() => {
      isOver = true;
    });
    await rig.until(() => isOver);
    assert.deepEqual([rig.dropped, rig.rows, rig.crawl.unwritten], [[1], 0, 0]);
    await rig.close();
  });

  contract('does not write over what another crawl has left', async (sink, t) => {
    if (sink.isShared) return;
    await sink.kind.prepare('default');
    await sink.kind.prepare('default');
    const rig = new SinkRig(t, [sink.kind], { isReal });
    await rig.offer(...numbered(0, 1));
    await rig.close();
    await assert.rejects(sink.kind.prepare('default'), ConfigError);
    assert.deepEqual(await sink.urls(), numbered(0, 1));
  });
}
