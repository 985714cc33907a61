/** The verb that lists the sinks of a crawl, and gives one up.
 *  Source: PROTOCOL.md [C-110]..[C-112]. */
import { outputText } from '../../../shared/outputs.ts';
import type { Replies } from '../../../shared/replies.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Peer } from '../peer.ts';
import type { CommandPorts } from '../services.ts';

export const reasonCharsMax = 512;

export async function sinks(
  { frontier }: CommandPorts,
  _peer: Peer,
  { crawl: name, drop }: Requests['crawl.sinks'],
): Promise<Replies['crawl.sinks']> {
  const states = await frontier.sinks(name, drop);
  const { outputs = [] } = frontier.crawls.named(name).spec;
  return {
    sinks: states.map(({ isOutput, reason, ms, ...state }) => {
      const output = outputs.find((one) => one.name === state.name);
      // One that the crawl has no more gets what waits for it.
      const other = isOutput ? 'it leaves the crawl' : 'the result files';
      return {
        ...state,
        target: output === undefined ? other : outputText(output),
        output: isOutput,
        ...(reason !== undefined && { reason: reason.slice(0, reasonCharsMax) }),
        ...(ms !== undefined && { ms: Math.round(ms) }),
      };
    }),
  };
}
