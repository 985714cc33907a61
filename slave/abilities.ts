/** What this slave can do besides what all do, told to the master before its first credit.
 *  Source: PROTOCOL.md, "slave.can". */
import type { MasterClient } from '../shared/client.ts';
import type { Logger } from '../shared/log.ts';
import { decodesImages } from './kinds/kinds.ts';
import { hasArticlePackages } from './rules/article-packages.ts';

export class Abilities {
  readonly #log: Logger;
  #isSaid = false;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** A master that does not know the verb takes no notice. [S-6] The operator hears once of what is
   *  missing. */
  tell(master: MasterClient, hasBrowser: boolean): void {
    const browser = hasBrowser ? ['browser'] : [];
    const article = hasArticlePackages() ? 'article' : 'no-article';
    const pixels = decodesImages ? ['pixels'] : [];
    const always = ['rules', 'post', 'archive', 'login', 'trains', 'images'];
    const what = [...always, article, ...browser, ...pixels];
    master.notify('slave.can', { what });
    if (decodesImages || this.#isSaid) return;
    this.#isSaid = true;
    this.#log.info('sharp is not installed beside slave.js: images are not decoded');
  }
}
