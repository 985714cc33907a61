"""One client of a queue server, whichever it is. It connects, says how many ms its start took,
and then does what each line of its input says: `put COUNT`, `get COUNT`, `offer COUNT UNIQUE`,
`await SIZE`. It answers a line with one of JSON: the latencies in us."""
import json
import os
import sys
import time
from multiprocessing.managers import BaseManager


class Manager(BaseManager):
    pass


for name in ('task_queue', 'filter_queue', 'result_queue'):
    Manager.register(name)
clock = time.perf_counter
host, port, number = sys.argv[1], int(sys.argv[2]), sys.argv[3]

began = clock()
manager = Manager(address=(host, port), authkey=os.environ['ORB_AUTHKEY'].encode())
manager.connect()
tasks, links, results = manager.task_queue(), manager.filter_queue(), manager.result_queue()
tasks.qsize()
print(json.dumps((clock() - began) * 1000), flush=True)


def page(index):
    return 'https://www.site.test/articles/%06d/client-%s.html' % (index, number)


def measured(call, args):
    times = []
    for arg in args:
        at = clock()
        call(*arg)
        times.append(int((clock() - at) * 1e6))
    return times


for line in sys.stdin:
    verb, *counts = line.split()
    counts = [int(text) for text in counts]
    if verb == 'put':
        times = measured(tasks.put, [(page(index),) for index in range(counts[0])])
    elif verb == 'get':
        times = measured(tasks.get, [()] * counts[0])
    elif verb == 'offer':
        # In an order in which a known link mostly comes long after it was new.
        times = measured(links.put, [(page(index % counts[1]),) for index in range(counts[0])])
    else:
        times = []
        deadline = clock() + 60
        while tasks.qsize() < counts[0]:
            assert clock() < deadline, 'the links did not come into the task queue'
            time.sleep(0.01)
    print(json.dumps(times), flush=True)
