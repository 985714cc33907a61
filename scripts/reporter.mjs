// TAP, and before its summary each test that failed: the end of a long log says what is wrong.
import { relative } from 'node:path';
import { tap } from 'node:test/reporters';

export default async function* report(source) {
  yield* tap(withFailures(source));
}

async function* withFailures(source) {
  const failed = [];
  for await (const event of source) {
    const { type, data } = event;
    // A suite fails with its tests, which are named themselves.
    if (type === 'test:fail' && data.details?.error?.failureType !== 'subtestsFailed') {
      failed.push(failureText(data));
    }
    if (type === 'test:diagnostic' && data.nesting === 0 && /^tests \d+$/.test(data.message)) {
      for (const message of failed.splice(0)) {
        yield { type, data: { ...data, message } };
      }
    }
    yield event;
  }
}

function failureText({ name, file, details }) {
  const error = details?.error;
  const why = String(error?.cause?.message ?? error?.message ?? '').replaceAll(/\s+/g, ' ');
  const where = file === undefined ? '' : `${relative(process.cwd(), file)}: `;
  return `failed: ${where}${name}: ${why.slice(0, 300)}`;
}
