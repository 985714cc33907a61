/** A rule that cannot be evaluated on a page, or at all: counted, and shown with its reason. */
export class RuleFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RuleFault';
  }
}

/** A text that is to be JSON is not. */
export class NotJson extends RuleFault {}
