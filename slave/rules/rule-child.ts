/**
 * The program of the process that evaluates rules for a slave (`rule-process.ts` starts it). It
 * does one thing at a time and may be killed at any moment. It ends with its slave: the channel
 * closes between two pages, and a thread looks for the parent while a page is evaluated.
 */
import { Worker } from 'node:worker_threads';
import { messageOf } from '../../shared/errors.ts';
import type { FromChild, ToChild } from './messages.ts';
import { RuleSet } from './rule-set.ts';

/** Ends this process when its parent is gone. It must be script code, whatever this process was
 *  started with. */
const watch = (parent: number) => `setInterval(() => {
  if (process.ppid !== ${parent}) process.kill(process.pid, 'SIGKILL');
}, 500);`;

/** Serves until the slave closes the channel. */
function serve(): void {
  // Its parent is there: it has not been told yet that this process is ready.
  new Worker(watch(process.ppid), { eval: true, execArgv: [] }).unref();
  const say = (message: FromChild) => void process.send?.(message);
  const sets = new Map<number, RuleSet>();
  process.on('message', (message: ToChild) => {
    try {
      const reply = answer(message, sets);
      if (reply !== undefined) say(reply);
    } catch (error) {
      if ('id' in message) say({ is: 'failed', id: message.id, message: messageOf(error) });
    }
  });
  say({ is: 'ready' });
}

function answer(message: ToChild, sets: Map<number, RuleSet>): FromChild | undefined {
  switch (message.do) {
    case 'compile': {
      const set = RuleSet.compile(message.items, message.follow);
      if (!(set instanceof RuleSet)) return { is: 'compiled', id: message.id, problems: set };
      sets.set(message.set, set);
      return { is: 'compiled', id: message.id, problems: [] };
    }
    case 'forget':
      sets.get(message.set)?.close();
      sets.delete(message.set);
      return undefined;
    case 'page': {
      const { id, page, jsonBytesMax } = message;
      const set = sets.get(message.set);
      if (set === undefined) return { is: 'failed', id, message: 'the rules are not known' };
      return { is: 'done', id, result: set.evaluate(page, jsonBytesMax) };
    }
    default:
      return message satisfies never;
  }
}

serve();
