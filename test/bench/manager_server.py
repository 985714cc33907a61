"""CPython's own queue server: queues of multiprocessing behind a manager's serve_forever.

With `list` or `set` as its argument it is a crawl's, too: a thread takes from filter_queue and puts
into task_queue what such a collection does not hold yet.
"""
import multiprocessing
import os
import sys
import threading
from multiprocessing.managers import BaseManager


class Manager(BaseManager):
    pass


def deduplicate(links, tasks, kind):
    seen = set() if kind == 'set' else []
    add = seen.add if kind == 'set' else seen.append
    while True:
        url = links.get()
        if url not in seen:
            add(url)
            tasks.put(url)


queues = {name: multiprocessing.Queue() for name in ('task_queue', 'filter_queue', 'result_queue')}
for name, queue in queues.items():
    Manager.register(name, callable=lambda queue=queue: queue)
if len(sys.argv) > 1:
    ends = (queues['filter_queue'], queues['task_queue'], sys.argv[1])
    threading.Thread(target=deduplicate, args=ends, daemon=True).start()
server = Manager(address=('127.0.0.1', 0), authkey=os.environ['ORB_AUTHKEY'].encode()).get_server()
print('listens on %s:%d' % server.address, flush=True)
server.serve_forever()
