/** The output of the programs: plain lines, JSON lines, and a status block on a terminal. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Cluster, Program, root } from '../support/cluster.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 60_000;

describe('logs', { concurrency: 2 }, () => {
  test('logs: --json-logs is a JSON object a line, of both programs', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(5), { delayMs: 300 });
    const cluster = new Cluster(t);
    const args = [site.url, '--exit-when-done', '--json-logs', '--status-every', '1'];
    const master = await cluster.master([...args, '--per-host', '2']);
    const slave = cluster.slave(['--json-logs']);
    await assertLeaves(master, slave);
    for (const { stdout, stderr } of [master, slave]) {
      assert.equal(stderr, '');
      const lines = stdout.trimEnd().split('\n');
      assert.ok(lines.length > 0);
      for (const line of lines) {
        const entry = JSON.parse(line) as Record<string, unknown>;
        assert.ok(typeof entry['msg'] === 'string' && entry['msg'].length > 0, line);
        assert.match(String(entry['level']), /^(info|warn|error)$/);
        assert.ok(!Number.isNaN(Date.parse(String(entry['time']))), line);
      }
    }
  });

  test('logs: without a terminal, plain lines and one status line an interval', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(6), { delayMs: 500 });
    const cluster = new Cluster(t);
    const args = [site.url, '--exit-when-done', '--status-every', '1', '--per-host', '2'];
    const master = await cluster.master(args);
    await assertLeaves(master, cluster.slave());
    const lines = master.stdout.trimEnd().split('\n');
    for (const line of lines) {
      assert.match(line, /^\d\d:\d\d:\d\d (info |warn |error) \S/);
      assert.ok(isPlain(line), line);
    }
    assert.ok(lines.some((line) => /default: \d+ pages · .*\/s/.test(line)));
    assert.match(master.stdout, /start a slave with: node slave\.js --master 127\.0\.0\.1:\d+ /);
    assert.match(
      master.stdout,
      /crawl default is done after .*: 7 pages, 0 images, 0 failed; every URL in scope was fetched; see /,
    );
  });

  test('logs: --log-level warn says nothing while all is well', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(1));
    const cluster = new Cluster(t);
    const options = { env: { ORB_LOG_LEVEL: 'warn' } };
    const master = cluster.run(
      [
        'master.js',
        site.url,
        '--exit-when-done',
        '--listen',
        '127.0.0.1:0',
        '--data',
        cluster.data,
      ],
      options,
    );
    await cluster.listening();
    await assertLeaves(master, cluster.slave());
    assert.equal(master.output, '');
  });

  test('logs: a log without room or reader ends no program', { timeout }, async (t) => {
    const site = await siteFor(t, flatSite(20), { delayMs: 100 });
    const cluster = new Cluster(t);
    const debug = ['--log-level', 'debug'];
    const master = await cluster.master([site.url, '--exit-when-done', ...debug]);
    const given = ['--master', cluster.address, '--authkey-file', join(cluster.data, 'authkey')];
    const toFull = ['-c', 'exec "$0" "$@" > /dev/full 2>&1', process.execPath];
    const full = new Program([...toFull, join(root, 'slave.js'), ...given, ...debug], {
      program: '/bin/sh',
    });
    t.after(() => full.kill());
    const unread = cluster.slave(debug);
    await unread.said(/joined/);
    for (const { child } of [unread, master]) {
      child.stdout?.destroy();
      child.stderr?.destroy();
    }
    await assertLeaves(full, unread, master);
    assert.equal(cluster.lines('pages.jsonl').length, 21);
  });

  const python = findPython();

  test('logs: on a terminal a status block repaints itself and ends clean', {
    timeout,
    skip: python === undefined && 'no python3 to make a terminal with',
  }, async (t) => {
    const site = await siteFor(t, flatSite(12), { delayMs: 400 });
    const cluster = new Cluster(t);
    const args = [site.url, '--exit-when-done', '--listen', '127.0.0.1:0', '--per-host', '2'];
    const onTerminal = `import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)`;
    const folders = ['--data', cluster.data, '--out', cluster.out];
    // A new terminal has no size.
    const sized = ['sh', '-c', 'stty rows 30 cols 100; exec "$@"', 'sh'];
    const command = [...sized, process.execPath, `${root}master.js`, ...args, ...folders];
    const master = new Program(['-c', onTerminal, ...command], { program: python ?? '' });
    t.after(() => master.kill());
    await cluster.listening();
    await master.said(/waiting for slaves to join/);
    const slave = cluster.slave();
    await master.said(/1 slave at work/);
    await assertLeaves(master, slave);
    const { stdout } = master;
    const painted = new Set([...stdout.matchAll(/default: (\d+) pages/g)].map(([, n]) => n));
    assert.ok(painted.size >= 3, 'painted again and again');
    const screen = screenOf(stdout);
    assert.ok(!/at work|waiting for slaves/.test(screen), `the block stayed:\n${screen}`);
    assert.match(screen, /crawl default is done after .*: 13 pages/);
    assert.ok(!stdout.includes('[?25l'), 'a master that is killed leaves the cursor as it was');
  });
});

/** No control characters. */
function isPlain(line: string): boolean {
  return [...line].every((char) => char >= ' ');
}

function findPython(): string | undefined {
  try {
    execFileSync('python3', ['-c', 'import pty'], { stdio: 'ignore' });
    return 'python3';
  } catch {
    return undefined;
  }
}

/** The text on a terminal after all of this was written to it: lines, and the few sequences
 *  that the status block uses. */
function screenOf(output: string): string {
  const rows: string[] = [''];
  let row = 0;
  let column = 0;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are a terminal's words
  for (const [token] of output.matchAll(/\u001b\[[?0-9;]*[A-Za-z]|\r|\n|[^\u001b\r\n]+/g)) {
    const count = Number(/\d+/.exec(token)?.[0] ?? 1);
    if (token === '\r') column = 0;
    else if (token === '\n') rows[++row] ??= '';
    else if (token.startsWith('\u001b[')) {
      const kind = token.at(-1);
      if (kind === 'A') row = Math.max(0, row - count);
      else if (kind === 'B') row += count;
      else if (kind === 'G') column = count - 1;
      else if (kind === 'E') [row, column] = [row + count, 0];
      else if (kind === 'F') [row, column] = [Math.max(0, row - count), 0];
      else if (kind === 'K') {
        rows[row] = /\[2K/.test(token) ? '' : (rows[row] ?? '').slice(0, column);
      } else if (kind === 'J') {
        rows.length = row + 1;
        rows[row] = (rows[row] ?? '').slice(0, column);
      }
    } else {
      const before = (rows[row] ?? '').padEnd(column);
      rows[row] = before.slice(0, column) + token + before.slice(column + token.length);
      column += token.length;
    }
  }
  return rows.join('\n');
}
