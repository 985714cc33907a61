/**
 * The look-ups and actions of a slave in a page. They run in a world of their own, in which the
 * scripts of the page cannot change what names mean.
 */
import { awakeMs, awakeSleep } from '../../shared/awake.ts';
import type { Tab } from './tab.ts';
import { orLate } from './within.ts';

const lookEveryMs = 50;
/** A page may go on to another document while it is asked. */
const triesMax = 4;

/** Finds the first element, in open shadow roots, too. */
const find = `const find = (root, selector) => {
    const found = root.querySelector(selector);
    if (found !== null) return found;
    for (const { shadowRoot } of root.querySelectorAll('*')) {
      const inside = shadowRoot === null ? null : find(shadowRoot, selector);
      if (inside !== null) return inside;
    }
    return null;
  };`;

/** The point to click on, once the element is shown, enabled and not below another one. */
const pointOf = (selector: string) => `(() => {
    ${find}
    const element = find(document, ${JSON.stringify(selector)});
    if (element === null) return null;
    if (element.matches(':disabled, [aria-disabled=true]')) return null;
    if (getComputedStyle(element).visibility !== 'visible') return null;
    element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
    const { left, top, width, height } = element.getClientRects()[0] ?? new DOMRect();
    if (width === 0 || height === 0) return null;
    const [x, y] = [left + width / 2, top + height / 2];
    let hit = document.elementFromPoint(x, y);
    while (hit?.shadowRoot?.elementFromPoint(x, y)) {
      const inside = hit.shadowRoot.elementFromPoint(x, y);
      if (inside === hit) break;
      hit = inside;
    }
    for (let at = hit; at; at = at.assignedSlot ?? at.parentNode ?? at.host) {
      if (at === element) return [x, y];
    }
    return null;
  })()`;

type Asked = Pick<Tab, 'mainFrame' | 'call' | 'tell'>;

export class PageWorld {
  readonly #tab: Asked;
  #context: number | undefined;

  constructor(tab: Asked) {
    this.#tab = tab;
  }

  /** Evaluates an expression. Undefined: no answer within that time.
   *  @throws Error it is wrong, or the page is gone */
  async evaluate(expression: string, timeoutMs: number): Promise<unknown> {
    return await orLate(this.#evaluate(expression, timeoutMs), timeoutMs);
  }

  async #evaluate(expression: string, timeout: number): Promise<unknown> {
    for (let tries = 1; ; tries++) {
      try {
        this.#context ??= await this.#made();
        const asked = { contextId: this.#context, expression, returnByValue: true, timeout };
        const { result, exceptionDetails } = await this.#tab.call('Runtime.evaluate', asked);
        if (exceptionDetails !== undefined) throw new PageError();
        return result.value;
      } catch (error) {
        if (error instanceof PageError || tries >= triesMax) throw error;
        // The world ends with its document, also one that was made a moment ago.
        this.#context = undefined;
      }
    }
  }

  async #made(): Promise<number> {
    const { mainFrame: frameId } = this.#tab;
    const { executionContextId } = await this.#tab.call('Page.createIsolatedWorld', { frameId });
    return executionContextId;
  }

  /** Waits for an element. Returns whether it came. */
  async appears(selector: string, timeoutMs: number): Promise<boolean> {
    const isThere = `(() => { ${find} return find(document, ${JSON.stringify(selector)}) !== null })()`;
    const found = await this.#until(timeoutMs, async (leftMs) => {
      return (await this.evaluate(isThere, leftMs)) === true ? true : undefined;
    });
    return found === true;
  }

  /** Clicks on an element, once that can be done. Returns whether it could. */
  async click(selector: string, timeoutMs: number): Promise<boolean> {
    const until = awakeMs() + timeoutMs;
    const expression = pointOf(selector);
    let before = '';
    const point = await this.#until(timeoutMs, async (leftMs) => {
      const found = (await this.evaluate(expression, leftMs)) as
        | [number, number]
        | null
        | undefined;
      // One that moves is not where it is said to be.
      const isStill = String(found) === before;
      before = String(found);
      return Array.isArray(found) && isStill ? found : undefined;
    });
    if (point === undefined) return false;
    const [x, y] = point;
    const at = { x, y, button: 'left', clickCount: 1 } as const;
    this.#tab.tell('Input.dispatchMouseEvent', { type: 'mouseMoved', x, y });
    this.#tab.tell('Input.dispatchMouseEvent', { ...at, type: 'mousePressed', buttons: 1 });
    const done = this.#tab.call('Input.dispatchMouseEvent', { ...at, type: 'mouseReleased' });
    // A script that it starts may take its time.
    await orLate(done, until - awakeMs());
    return true;
  }

  /** Scrolls to the end of the page. Returns its height. */
  async scroll(timeoutMs: number): Promise<unknown> {
    const expression = `(() => {
      const height = document.documentElement.scrollHeight;
      window.scrollTo(0, height);
      return height;
    })()`;
    return await this.evaluate(expression, timeoutMs);
  }

  /** Looks again and again. Undefined: the time is over, or what is asked makes no sense. */
  async #until<T>(
    timeoutMs: number,
    look: (leftMs: number) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const until = awakeMs() + timeoutMs;
    for (;;) {
      const leftMs = until - awakeMs();
      if (leftMs <= 0) return undefined;
      try {
        const found = await look(leftMs);
        if (found !== undefined) return found;
      } catch (error) {
        if (error instanceof PageError) return undefined;
        // Between two documents.
      }
      await awakeSleep(Math.min(lookEveryMs, leftMs));
    }
  }
}

/** An expression that failed in the page, such as one with a wrong selector. */
class PageError extends Error {}
