/** A full collection of garbage, in this process. */
import v8 from 'node:v8';
import { runInNewContext } from 'node:vm';

export function collect(): void {
  v8.setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}
