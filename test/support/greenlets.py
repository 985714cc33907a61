"""Numbers squared by greenlets of gevent, whose sockets are not patched: a call of one holds up all,
and they share the connection of their thread.

    python greenlets.py HOST PORT AUTHKEY_FILE COUNT
"""
import sys

import gevent
from multiprocessing.managers import BaseManager


class Manager(BaseManager):
    pass


Manager.register("numbers")
Manager.register("squares")


def main(host, port, authkey_file, count):
    with open(authkey_file, "rb") as file:
        manager = Manager(address=(host, int(port)), authkey=file.readline().strip())
    manager.connect()
    numbers, squares = manager.numbers(), manager.squares()
    done = {}

    def work(name):
        while True:
            number = numbers.get()
            gevent.sleep(0)
            if number is None:
                return
            squares.put((number, number * number))
            done[name] = done.get(name, 0) + 1
            gevent.sleep(0)

    for number in list(range(int(count))) + [None] * 8:
        numbers.put(number)
    gevent.joinall([gevent.spawn(work, name) for name in range(8)], raise_error=True)
    got = dict(squares.get(timeout=30) for _ in range(int(count)))
    assert got == {number: number * number for number in range(int(count))}
    assert len(done) == 8, done
    print("%d squares, their sum is %d" % (len(got), sum(got.values())))


main(*sys.argv[1:])
