"""Numbers squared by processes, threads and coroutines that share two queues of the master.

    python squares.py HOST PORT AUTHKEY_FILE COUNT
"""
import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Process
from multiprocessing.managers import BaseManager


class Manager(BaseManager):
    pass


Manager.register("numbers")
Manager.register("squares")
coroutines = 4


def connect(host, port, authkey_file):
    with open(authkey_file, "rb") as file:
        manager = Manager(address=(host, int(port)), authkey=file.readline().strip())
    manager.connect()
    return manager.numbers(), manager.squares()


def work(*where):
    numbers, squares = connect(*where)
    while True:
        number = numbers.get()
        if number is None:
            return
        squares.put((number, number * number))


def work_async(*where):
    """Four coroutines; a call waits in a thread of its own, so that the others go on."""
    numbers, squares = connect(*where)

    async def coroutine(pool):
        loop = asyncio.get_event_loop()
        while True:
            number = await loop.run_in_executor(pool, numbers.get)
            if number is None:
                return
            await loop.run_in_executor(pool, squares.put, (number, number * number))

    async def together():
        with ThreadPoolExecutor(coroutines) as pool:
            await asyncio.gather(*[coroutine(pool) for _ in range(coroutines)])

    loop = asyncio.new_event_loop()
    loop.run_until_complete(together())
    loop.close()


def main(host, port, authkey_file, count):
    where, count = (host, port, authkey_file), int(count)
    numbers, squares = connect(*where)
    workers = [Process(target=work, args=where) for _ in range(2)]
    workers += [threading.Thread(target=work, args=where) for _ in range(2)]
    workers += [Process(target=work_async, args=where)]
    for worker in workers:
        worker.start()
    for number in range(count):
        numbers.put(number)
    got = dict(squares.get(timeout=30) for _ in range(count))
    for _ in range(len(workers) - 1 + coroutines):
        numbers.put(None)
    for worker in workers:
        worker.join()
    assert got == {number: number * number for number in range(count)}
    print("%d squares, their sum is %d" % (count, sum(got.values())))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
