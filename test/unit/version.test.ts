import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { version } from '../../shared/version.ts';

test('version: is that of package.json', () => {
  const path = new URL('../../../package.json', import.meta.url);
  const { version: packaged } = JSON.parse(readFileSync(path, 'utf8')) as { version: string };
  assert.equal(version, packaged);
});
