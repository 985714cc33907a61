/** The verbs of the native dialect: from a valid request to its reply. */
import { CommandError } from '../../../shared/errors.ts';
import type { Replies } from '../../../shared/replies.ts';
import type { Request, Requests, Verb } from '../../../shared/requests.ts';
import type { Peer } from '../peer.ts';
import type { CommandPorts } from '../services.ts';
import { backup } from './backup.ts';
import { list } from './crawl-pages.ts';
import * as crawls from './crawls.ts';
import * as jobs from './jobs.ts';
import * as queues from './queues.ts';
import { sinks } from './sinks.ts';
import * as slaves from './slaves.ts';
import * as tasks from './tasks.ts';

type Performed = Exclude<Verb, 'hello'>;
type Command<V extends Performed> = (
  ports: CommandPorts,
  peer: Peer,
  request: Requests[V],
) => Promise<Replies[V]> | Replies[V];

const commands: { readonly [V in Performed]: Command<V> } = {
  ping: () => ({}),
  bye: () => ({}),
  'task.credit': tasks.credit,
  'task.report': tasks.report,
  'task.started': tasks.started,
  'task.hop': tasks.hop,
  'task.robots': tasks.robots,
  'task.sitemap': tasks.sitemap,
  'task.release': tasks.release,
  'task.extend': tasks.extend,
  'task.archive': tasks.archive,
  'task.image': tasks.image,
  'task.known': tasks.known,
  'task.content': tasks.content,
  'proxy.state': tasks.proxies,
  'images.state': tasks.folders,
  'crawl.add': crawls.add,
  'crawl.recrawl': crawls.recrawl,
  'crawl.list': list,
  'crawl.pause': crawls.pause,
  'crawl.resume': crawls.resume,
  'crawl.cancel': crawls.cancel,
  'crawl.remove': crawls.remove,
  'crawl.rename': crawls.rename,
  'crawl.rotate': crawls.rotate,
  'crawl.set': crawls.set,
  'crawl.sinks': sinks,
  'crawl.buried': crawls.buried,
  'crawl.failed': crawls.failed,
  'crawl.replay': crawls.replay,
  'crawl.verify': crawls.verify,
  'crawl.why': crawls.why,
  'slave.state': slaves.state,
  'slave.can': slaves.can,
  'login.failed': slaves.loginFailed,
  'slave.list': slaves.list,
  'slave.drain': slaves.drain,
  'host.list': ({ hosts }, _peer, request) => hosts.list(request),
  'host.set': ({ hosts }, _peer, request) => hosts.set(request),
  backup,
  'queue.put': queues.put,
  'queue.get': queues.get,
  'queue.done': queues.done,
  'queue.release': queues.release,
  'queue.size': queues.size,
  'job.add': jobs.add,
  'job.watch': jobs.watch,
  'job.list': jobs.list,
  'job.get': jobs.get,
  'job.cancel': jobs.cancel,
  'exec.can': jobs.can,
  'exec.output': jobs.output,
  'exec.report': jobs.report,
};

/** Verbs of tasks, proxies and logins, and what slaves say of themselves, are for slaves. [S-11]
 *  @throws CommandError (or rejects with it) the refusal for the peer. */
export function perform(
  ports: CommandPorts,
  peer: Peer,
  request: Exclude<Request, Requests['hello']>,
): Promise<object> | object {
  if (
    /^(task\.|proxy\.|images\.|exec\.|login\.|slave\.(?:state|can)$)/.test(request.verb) &&
    peer.role !== 'slave'
  ) {
    throw new CommandError(
      'E_BAD_REQUEST',
      `${request.verb} is for slaves; say hello with the role slave`,
    );
  }
  const command = commands[request.verb] as Command<Performed>;
  return command(ports, peer, request as never);
}
