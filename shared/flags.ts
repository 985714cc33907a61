/**
 * An option is written once, as a schema. Its description is the flag, two spaces, and the help, as
 * `--help` prints them: `--delay <ms>  …`. Choices, bounds and default are those of the schema. Where
 * the default is not a plain value, the help ends with it: `; default: no limit`. `cli.ts` makes the
 * flags.
 */
import * as z from 'zod';

/** A whole number within bounds. One check at a time would make one more schema. */
export const whole = (min: number, max: number) => z.int().check(z.gte(min), z.lte(max));

/** Off unless its flag is given. */
export const switched = () => z.boolean().default(false);

/** For `parse`, with a schema that is used a few times: zod would compile a function for it first,
 *  which takes some milliseconds. */
export const rarely = { jitless: true } as const;
