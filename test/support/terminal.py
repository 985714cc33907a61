"""Runs a program on a terminal of its own: terminal.py ROWS COLUMNS PROGRAM [ARGUMENT...]

Its output is copied to stdout. Each line of stdin is an order: `size ROWS COLUMNS`, `key HEX`, or
`continue`, which is what a shell's `fg` does.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def order(line, fd, pid):
    words = line.split()
    if words[0] == "size":
        resize(fd, int(words[1]), int(words[2]))
    elif words[0] == "key":
        os.write(fd, bytes.fromhex(words[1]))
    elif words[0] == "continue":
        os.killpg(pid, signal.SIGCONT)


def main(rows, columns, *command):
    pid, fd = pty.fork()
    if pid == 0:
        resize(0, int(rows), int(columns))
        os.execvp(command[0], command)
    print(f"pid {pid}", flush=True)
    inputs = [0, fd]
    while True:
        ready, _, _ = select.select(inputs, [], [])
        if 0 in ready:
            line = sys.stdin.readline()
            if line == "":
                inputs.remove(0)
            else:
                order(line, fd, pid)
        if fd in ready:
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b""
            if data == b"":
                break
            os.write(1, data)
    _, status = os.waitpid(pid, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


main(*sys.argv[1:])
