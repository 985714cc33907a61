/** The abilities of this slave beyond those of all, declared before its first credit.
 *  Source: PROTOCOL.md, "slave.can". */
import type { MasterClient } from '../shared/client.ts';
import type { Logger } from '../shared/log.ts';
import { pixels, sharedFolders } from './kinds/kinds.ts';
import { hasArticlePackages } from './rules/article-packages.ts';

export class Abilities {
  readonly #log: Logger;
  #isSaid = false;
  /** The connection that was told last. */
  #told: Parameters<Abilities['tell']> | undefined;

  constructor(log: Logger) {
    this.#log = log;
    sharedFolders.onChange = () => this.#tellFolders();
    if (pixels !== undefined) pixels.onUnable = (why) => this.#loseImages(why);
  }

  /** A master that does not know the verb takes no notice. [S-6] The operator hears once of what is
   *  missing. */
  tell(master: MasterClient, hasBrowser: boolean): void {
    this.#told = [master, hasBrowser];
    const browser = hasBrowser ? ['browser'] : [];
    const article = hasArticlePackages() ? 'article' : 'no-article';
    const decodes = pixels?.isAble === true ? ['pixels'] : [];
    const always = ['rules', 'post', 'archive', 'login', 'trains', 'images'];
    const what = [...always, article, ...browser, ...decodes];
    master.notify('slave.can', { what });
    if (sharedFolders.troubles.length > 0) this.#tellFolders();
    if (pixels !== undefined || this.#isSaid) return;
    this.#isSaid = true;
    this.#log.info('sharp is not installed beside slave.js: images are not decoded');
  }

  /** All of them each time, so that one message lost is made good by the next. */
  #tellFolders(): void {
    this.#told?.[0].notify('images.state', { folders: sharedFolders.troubles });
  }

  /** Images that must be decoded go to other slaves from now on. */
  #loseImages(why: string): void {
    const mend = 'install it anew in the folder of slave.js, then start this slave again';
    this.#log.warn(`sharp cannot be loaded: ${why}; images are not decoded: ${mend}`);
    if (this.#told !== undefined) this.tell(...this.#told);
  }
}
