/** A request off the wire: from any value to a typed one, or to its error. */
import { CommandError, messageOf, ProtocolError } from '../../shared/errors.ts';
import { decodeMessage } from '../../shared/frame.ts';
import { quickCheck } from '../../shared/quick-check.ts';
import {
  type Packed,
  packedSchemas,
  type Request,
  requestSchemas,
  type Verb,
} from '../../shared/requests.ts';

/** Made when a verb first comes: most of them never do. */
const isRight = new Map<Verb, ReturnType<typeof quickCheck>>();
const isRightPacked = {
  result: quickCheck(packedSchemas.result),
  images: quickCheck(packedSchemas.images),
  items: quickCheck(packedSchemas.items),
  image: quickCheck(packedSchemas.image),
};

/** Returns the id for the reply; undefined when there is none, or not a valid one. [S-3] */
export function idOf(message: unknown): number | undefined {
  if (typeof message !== 'object' || message === null || !('id' in message)) return undefined;
  const { id } = message;
  return typeof id === 'number' && Number.isSafeInteger(id) && id >= 0 ? id : undefined;
}

/** Returns the protocol version in a hello of any version. */
export function versionOf(message: unknown): number | undefined {
  if (typeof message !== 'object' || message === null || !('protocol' in message)) return undefined;
  const isHello = 'verb' in message && message.verb === 'hello';
  return isHello && typeof message.protocol === 'number' ? message.protocol : undefined;
}

/** @throws ProtocolError not a map with a verb [S-8] · CommandError E_UNKNOWN_VERB [S-6],
 *  E_BAD_REQUEST [S-7] */
export function parseRequest(message: unknown): Request {
  if (typeof message !== 'object' || message === null || !('verb' in message)) {
    throw new ProtocolError('a message must be a map with a verb');
  }
  const { verb } = message;
  if (typeof verb !== 'string') throw new CommandError('E_UNKNOWN_VERB', 'a verb must be text');
  if (!isVerb(verb)) {
    throw new CommandError('E_UNKNOWN_VERB', `there is no verb "${verb.slice(0, 64)}"`);
  }
  const isFine = isRight.get(verb) ?? quickCheck(requestSchemas[verb]);
  isRight.set(verb, isFine);
  if (isFine(message)) return message as Request;
  const parsed = requestSchemas[verb].safeParse(message);
  if (parsed.success) return parsed.data as Request;
  throw badRequest(verb, parsed.error.issues[0]);
}

/** The value of a packed field. [F-9] @throws CommandError E_BAD_REQUEST [S-7] */
export function unpack<N extends keyof Packed>(verb: Verb, name: N, packed: Uint8Array): Packed[N] {
  let value: unknown;
  try {
    value = decodeMessage(packed);
  } catch (error) {
    throw badRequest(verb, { path: [name], message: messageOf(error) });
  }
  if (isRightPacked[name](value)) return value as Packed[N];
  const parsed = packedSchemas[name].safeParse(value);
  if (parsed.success) return parsed.data as Packed[N];
  const [issue] = parsed.error.issues;
  throw badRequest(verb, issue && { path: [name, ...issue.path], message: issue.message });
}

type Issue = { readonly path: readonly PropertyKey[]; readonly message: string };

function badRequest(verb: string, issue: Issue | undefined): CommandError {
  const where = issue?.path.length ? `${issue.path.join('.')}: ` : '';
  return new CommandError('E_BAD_REQUEST', `${verb}: ${where}${issue?.message}`.slice(0, 512));
}

function isVerb(verb: string): verb is Verb {
  return Object.hasOwn(requestSchemas, verb);
}
