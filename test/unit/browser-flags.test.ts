/** The flags of the browser against those of Playwright. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { browserFlags } from '../../slave/browser/flags.ts';

test('browser: what Playwright turns off stays off', () => {
  const main = createRequire(import.meta.url).resolve('playwright-core');
  const text = readFileSync(main.replace(/[^/]+$/, 'lib/coreBundle.js'), 'utf8');
  const [, list] = /\n\s*disabledFeatures = \[([\s\S]*?)\]/.exec(text) ?? [];
  const features = [...(list ?? '').matchAll(/^\s*"(\w+)"/gm)].map(([, name]) => name);
  assert.ok(features.length > 10, list);
  // Chromium takes the last of two such flags.
  const own = browserFlags.filter((flag) => flag.startsWith('--disable-features='));
  assert.equal(own.length, 1);
  const off = new Set(own[0]?.replace(/^.*=/, '').split(','));
  assert.deepEqual(
    features.filter((name) => !off.has(name ?? '')),
    [],
  );
});
