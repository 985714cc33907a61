/** The same as in package.json; a unit test compares. */
export const version = '0.1.0';
