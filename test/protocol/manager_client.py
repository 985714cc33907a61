"""What a stock client of multiprocessing.managers does with user queues, from Python 3.6 on.

    ORB_AUTHKEY=... python manager_client.py HOST PORT SUFFIX

Asserts as it goes; prints "ok" at its end.
"""
import os
import queue
import sys
import threading
import time
from multiprocessing import Process, get_context
from multiprocessing.managers import BaseManager, RemoteError

host, port, suffix = sys.argv[1], int(sys.argv[2]), sys.argv[3]
key = os.environ["ORB_AUTHKEY"].encode()


class Manager(BaseManager):
    pass


names = ["jobs", "results", "small", "__proto__", "weird name"]
for name in names:
    Manager.register(name + suffix if name in ("jobs", "results") else name)


def connect():
    manager = Manager(address=(host, port), authkey=key)
    manager.connect()
    return manager


def raises(kind, call, *args, **kwds):
    try:
        call(*args, **kwds)
    except kind as error:
        return error
    raise AssertionError("%s was not raised" % kind)


def square(count):
    manager = connect()
    jobs, results = getattr(manager, "jobs" + suffix)(), getattr(manager, "results" + suffix)()
    for _ in range(count):
        number = jobs.get(timeout=10)
        results.put((number, number * number))


def values(jobs):
    shared = [1, 2]
    for value in (None, True, 0, -1, 2**31, 2**70, 1.0, 1.5, "", "h\xe9\u4e2d\U0001f600", b"\0\xff",
                  [], (), {}, [1, [2, [3, None]]], {"a": {"b": (1, 2)}, 1: 2}, {1, 2}, "put",
                  "x" * 100000, b"y" * 3000000, [shared, shared], range(3), "__proto__",
                  bytearray(b"z"), {"__proto__": 1}):
        jobs.put(value)
        back = jobs.get(timeout=5)
        assert back == value and type(back) is type(value), (value, back)
    jobs.put([shared, shared])
    first, second = jobs.get()
    assert first is second


def semantics(manager, jobs):
    assert type(raises(queue.Empty, jobs.get, False)) is queue.Empty
    raises(queue.Empty, jobs.get_nowait)
    raises(queue.Empty, jobs.get, block=False)
    started = time.time()
    raises(queue.Empty, jobs.get, True, 0.2)
    raises(queue.Empty, jobs.get, timeout=0.2)
    assert 0.35 < time.time() - started < 2, time.time() - started
    assert jobs.empty() is True and jobs.qsize() == 0 and jobs.full() is False
    jobs.put_nowait(1)
    jobs.put(obj=2)
    jobs.put(3, True, timeout=-1)  # nothing can wait, so nobody looks at it
    assert jobs.qsize() == 3 and jobs.empty() is False
    assert [jobs.get_nowait(), jobs.get(True), jobs.get(block=True, timeout=None)] == [1, 2, 3]
    assert "unexpected keyword" in str(raises(TypeError, jobs.get, wait=1))
    assert "positional" in str(raises(TypeError, jobs.get, 1, 2, 3))
    assert "missing" in str(raises(TypeError, jobs.put))
    raises(ValueError, jobs.get, timeout=-1)
    raises(TypeError, jobs.get, timeout="soon")
    jobs.put("kept")
    assert jobs.get(timeout=10**12) == "kept"
    error = raises(RemoteError, jobs._callmethod, "close")
    assert "put_nowait" in str(error), error
    assert "jobs" in str(jobs)
    raises(RemoteError, jobs._callmethod, "#GETVALUE")
    raises(RemoteError, getattr(manager, "weird name"))
    raises(RemoteError, jobs.put, os.system)
    raises(RemoteError, jobs.put, jobs)
    assert jobs.empty()
    jobs.put(item=4)
    jobs.put_nowait(item=5)
    assert [jobs.get(), jobs.get()] == [4, 5]
    assert "multiple" in str(raises(TypeError, jobs.put, 1, obj=1))
    manager._debug_info()
    assert manager._number_of_objects() > 0
    getattr(manager, "__proto__")().put(1)


def cube(number):
    pool_results.put((number, number ** 3))
    return pool_results.qsize() > 0


def pool(results):
    """Forked children use the proxies that they inherit, each over a connection of its own."""
    global pool_results
    pool_results = results
    with get_context("fork").Pool(3) as children:
        assert all(children.map(cube, range(30)))
        children.close()
        children.join()
    got = dict(results.get(timeout=10) for _ in range(30))
    assert got == {number: number ** 3 for number in range(30)}


def bounded(manager):
    small = manager.small()
    small.put(1)
    small.put(2)
    assert small.full()
    raises(queue.Full, small.put_nowait, 3)
    raises(queue.Full, small.put, 3, timeout=0.1)
    raises(ValueError, small.put, 3, timeout=-1)
    late = threading.Timer(0.2, lambda: manager.small().get())
    late.start()
    small.put(3, timeout=10)
    late.join()
    assert [small.get(), small.get()] == [2, 3]


def workers(jobs, results):
    for number in range(40):
        jobs.put(number)
    processes = [Process(target=square, args=(10,)) for _ in range(2)]
    threads = [threading.Thread(target=square, args=(10,)) for _ in range(2)]
    for worker in processes:
        worker.start()
    for worker in threads:
        worker.start()
    got = dict(results.get(timeout=10) for _ in range(40))
    for worker in processes + threads:
        worker.join()
    assert got == {number: number * number for number in range(40)}
    time.sleep(0.8)
    assert jobs.empty() and results.empty(), (jobs.qsize(), results.qsize())


if __name__ == "__main__":
    started = time.time()
    manager = connect()
    jobs, results = getattr(manager, "jobs" + suffix)(), getattr(manager, "results" + suffix)()
    assert jobs.empty()
    start_ms = (time.time() - started) * 1000
    values(jobs)
    semantics(manager, jobs)
    bounded(manager)
    pool(results)
    workers(jobs, results)
    print("ok %.1f" % start_ms)
