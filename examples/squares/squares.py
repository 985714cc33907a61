"""24 numbers squared by 2 processes x 3 threads x 4 coroutines that share two queues of a master.

    python squares.py HOST PORT AUTHKEY_FILE
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


def connect(host, port, authkey_file):
    with open(authkey_file, "rb") as file:
        manager = Manager(address=(host, int(port)), authkey=file.readline().strip())
    manager.connect()
    return manager.numbers(), manager.squares()


async def coroutine(numbers, squares, pool):
    loop = asyncio.get_running_loop()
    while True:
        number = await loop.run_in_executor(pool, numbers.get)
        if number is None:
            return
        await loop.run_in_executor(pool, squares.put, (number, number * number))


def thread(where):
    numbers, squares = connect(*where)

    async def four():
        with ThreadPoolExecutor(4) as pool:
            await asyncio.gather(*[coroutine(numbers, squares, pool) for _ in range(4)])

    asyncio.run(four())


def process(where):
    threads = [threading.Thread(target=thread, args=(where,)) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def main(*where):
    numbers, squares = connect(*where)
    processes = [Process(target=process, args=(where,)) for _ in range(2)]
    for one in processes:
        one.start()
    for number in range(1, 25):
        numbers.put(number)
    got = dict(squares.get(timeout=60) for _ in range(24))
    for _ in range(24):
        numbers.put(None)
    for one in processes:
        one.join()
    print("%d squares, their sum is %d" % (len(got), sum(got.values())))


if __name__ == "__main__":
    main(*sys.argv[1:])
