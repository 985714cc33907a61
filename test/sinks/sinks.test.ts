import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { filesKind } from '../../master/sinks/files-kind.ts';
import { sinkContract } from './contract.ts';

function files(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'orb-sink-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'default/pages.jsonl');
  let kept = Buffer.alloc(0);
  const keep = () => {
    kept = readFileSync(path);
  };
  const mend = () => {
    mkdirSync(join(folder, 'default'), { recursive: true });
    writeFileSync(path, kept);
  };
  const away = `${path}.away`;
  return {
    kind: filesKind(folder),
    urls: () =>
      (existsSync(path) ? readFileSync(path, 'utf8') : '')
        .split('\n')
        .slice(0, -1)
        .map((line) => (JSON.parse(line) as { url: string }).url),
    harms: [
      { what: 'gone', harm: () => renameSync(path, away), mend: () => renameSync(away, path) },
      {
        what: 'shorter',
        harm: () => {
          keep();
          truncateSync(path, 5);
        },
        mend,
      },
      {
        what: 'another one',
        harm: () => {
          keep();
          rmSync(path);
          writeFileSync(path, Buffer.alloc(kept.length, 'x'));
        },
        mend: () => {
          rmSync(path);
          mend();
        },
      },
    ],
  };
}

sinkContract('files', files);
