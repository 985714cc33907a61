/** How the operator calls the programs, for lines that say what to run. The package's own command
 *  (`scripts/orbweaver.mjs`) says how it was called; in a clone nothing does. */

/** `npx orbweaver`, `orbweaver` */
const { ORBWEAVER_CALL: command } = process.env;

export const masterCall = command === undefined ? 'node master.js' : `${command} master`;
export const slaveCall = command === undefined ? 'node slave.js' : `${command} slave`;

/** Files of this machine that another one needs. */
export const slaveFiles =
  command === undefined
    ? "slave.js and the master's orb-data/authkey"
    : "the master's orb-data/authkey";
