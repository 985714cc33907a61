/** The units of systemd are valid, and agree with the programs. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { exitCodes } from '../../shared/errors.ts';
import { root } from '../support/cluster.ts';

const names = ['master', 'slave'] as const;
const textOf = (name: string) =>
  readFileSync(join(root, `deploy/orbweaver-${name}.service`), 'utf8');
const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0;

describe('units', () => {
  for (const name of names) {
    test(`units: systemd accepts orbweaver-${name}.service`, {
      skip: !hasAnalyze && 'there is no systemd-analyze',
    }, (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
      t.after(() => rmSync(folder, { recursive: true }));
      const unit = join(folder, `orbweaver-${name}.service`);
      cpSync(join(root, `deploy/orbweaver-${name}.service`), unit);
      const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', unit], {
        encoding: 'utf8',
      });
      const ours = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('orbweaver'));
      assert.deepEqual([status, ours], [0, []]);
      writeFileSync(unit, textOf(name).replace('Restart=on-failure', 'Restart=on-fail'));
      const bad = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' });
      assert.match(bad.stderr, /orbweaver.*restart/i, 'it would notice');
    });

    test(`units: the ${name} is not restarted when the operator must act`, () => {
      const [, codes = ''] = /^RestartPreventExitStatus=(.*)$/m.exec(textOf(name)) ?? [];
      for (const code of [exitCodes.operator, exitCodes.auth]) {
        assert.ok(codes.split(' ').includes(String(code)), codes);
      }
      assert.ok(!codes.split(' ').includes(String(exitCodes.failed)));
      const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(textOf(name)) ?? [];
      assert.ok(Number(seconds) > 35, 'longer than a drain');
    });

    test(`units: the ${name} has the options that its unit gives`, () => {
      const [, line = ''] = /^ExecStart=(.*)$/m.exec(textOf(name)) ?? [];
      const help = execFileSync(process.execPath, [join(root, `${name}.js`), '--help'], {
        encoding: 'utf8',
      });
      for (const [flag] of line.matchAll(/--[a-z-]+/g)) assert.ok(help.includes(`${flag} `), flag);
    });
  }
});
