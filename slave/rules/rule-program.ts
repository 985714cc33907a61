/**
 * The program of the child for rules. In slave.js the build puts the packed bundle of `rule-
 * child.ts` in place of this file, so that slave.js stays one file that is copied, and the rules
 * cost nothing where there are none.
 */
import { fileURLToPath } from 'node:url';

/** A file, or a program compressed by Brotli, in base64. */
type RuleProgram = { readonly path: string } | { readonly packed: string };

export const ruleProgram: RuleProgram = {
  path: fileURLToPath(new URL('rule-child.js', import.meta.url)),
};
