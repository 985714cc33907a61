/**
 * The program of the process that evaluates rules for a slave (`rule-process.ts` starts it). It
 * does one thing at a time and may be killed at any moment. It ends with its slave: the channel
 * closes between two pages, and a thread looks for the parent while a page is evaluated.
 */
import { pathToFileURL } from 'node:url';
import { endWithParent } from '../../shared/end-with-parent.ts';
import { messageOf } from '../../shared/errors.ts';
import type { PageFunction } from '../../shared/page-function.ts';
import type { RuleResult } from '../../shared/rule-results.ts';
import type { FromChild, ToChild } from './messages.ts';
import { callWith, functionOf } from './page-call.ts';
import { RuleSet } from './rule-set.ts';

/** Serves until the slave closes the channel. */
function serve(): void {
  // Its parent is there: it has not been told yet that this process is ready.
  endWithParent();
  const say = (message: FromChild) => void process.send?.(message);
  const child = new Child();
  let last: Promise<unknown> = Promise.resolve();
  process.on('message', (message: ToChild) => {
    // A page function may wait: one message after the other.
    last = last.then(async () => {
      try {
        const reply = await child.answer(message);
        if (reply !== undefined) say(reply);
      } catch (error) {
        if ('id' in message) say({ is: 'failed', id: message.id, message: messageOf(error) });
      }
    });
  });
  say({ is: 'ready' });
}

class Child {
  readonly #sets = new Map<number, RuleSet>();
  #page: PageFunction | undefined;
  /** Why there is none, though there should be. */
  #fault: string | undefined;

  async answer(message: ToChild): Promise<FromChild | undefined> {
    switch (message.do) {
      case 'compile': {
        const set = RuleSet.compile(message.items, message.follow, message.packages);
        if (!(set instanceof RuleSet)) return { is: 'compiled', id: message.id, problems: set };
        this.#sets.set(message.set, set);
        return { is: 'compiled', id: message.id, problems: [] };
      }
      case 'forget':
        this.#sets.get(message.set)?.close();
        this.#sets.delete(message.set);
        return undefined;
      case 'load':
        this.#fault = await this.#load(message.path);
        if (this.#fault === undefined) return { is: 'loaded', id: message.id };
        return { is: 'failed', id: message.id, message: this.#fault };
      case 'page':
        return await this.#evaluate(message);
      default:
        return message satisfies never;
    }
  }

  async #evaluate({
    id,
    set: number,
    page,
    jsonBytesMax,
    isBare = false,
  }: Extract<ToChild, { do: 'page' }>): Promise<FromChild> {
    const set = this.#sets.get(number);
    if (set === undefined && number !== 0) {
      return { is: 'failed', id, message: 'the rules are not known' };
    }
    const nothing: RuleResult = { rows: [], rejected: [], failures: [], counts: {} };
    const result = set?.evaluate(page, jsonBytesMax) ?? nothing;
    const call =
      this.#fault === undefined
        ? this.#page
        : () => {
            throw new Error(this.#fault);
          };
    if (call !== undefined && !isBare) await callWith(call, page, jsonBytesMax, result);
    return { is: 'done', id, result };
  }

  /** Returns why it cannot be loaded. */
  async #load(path: string): Promise<string | undefined> {
    try {
      this.#page = functionOf(await import(pathToFileURL(path).href));
      return undefined;
    } catch (error) {
      return `the page function cannot be loaded: ${messageOf(error)}`;
    }
  }
}

serve();
