/** A rule that cannot be evaluated on a page, or at all: counted, and shown with its reason. */
export class RuleFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'RuleFault';
  }
}
