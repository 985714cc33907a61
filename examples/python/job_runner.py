"""Jobs by name with arguments; a job whose runner is killed is run by another one.

    python job_runner.py HOST PORT AUTHKEY_FILE run SECONDS
    python job_runner.py HOST PORT AUTHKEY_FILE submit upper hello
"""
import queue
import sys
from multiprocessing.managers import BaseManager


class Manager(BaseManager):
    pass


Manager.register("jobs")
Manager.register("answers")
# What may be run: a job names one of these, and never brings code of its own.
known = {"upper": str.upper, "reverse": lambda text: text[::-1], "length": len}


def run(jobs, answers, patience):
    """Runs jobs until none has come for `patience` seconds."""
    while True:
        try:
            job = jobs.get(timeout=patience)
        except queue.Empty:
            return
        try:
            value, error = known[job["name"]](*job["args"]), None
        except Exception as failure:
            value, error = None, "%s: %s" % (type(failure).__name__, failure)
        answers.put({"name": job["name"], "value": value, "error": error})


def main(host, port, authkey_file, what, name="", *args):
    with open(authkey_file, "rb") as file:
        manager = Manager(address=(host, int(port)), authkey=file.readline().strip())
    manager.connect()
    jobs, answers = manager.jobs(), manager.answers()
    if what == "run":
        run(jobs, answers, float(name))
    else:
        jobs.put({"name": name, "args": args})
        print(answers.get(timeout=30))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
