"""The real pickle, for the tests of ours: frames on stdin and stdout, 4 bytes big-endian + body.

A request is one letter and its data, a reply a list of byte strings, each with its length.
  L pickle     load; answer its description, then the value pickled in every way there is
  H            answer names and pickles that must be refused, in turn
Runs on Python 2.7 and 3.6 or newer, with the standard library alone.
"""
import binascii
import io
import os
import pickle
import struct
import sys

PY2 = sys.version_info[0] == 2
if PY2:
    import cPickle
    import copy_reg as copyreg
    import Queue as queue

    text_type, int_types, range_type = unicode, (int, long), xrange  # noqa: F821
    PICKLERS = [cPickle.Pickler, pickle.Pickler]
    STDIN, STDOUT = sys.stdin, sys.stdout
else:
    import copyreg
    import queue

    text_type, int_types, range_type = str, (int,), range
    PICKLERS = [pickle.Pickler, pickle._Pickler]
    STDIN, STDOUT = sys.stdin.buffer, sys.stdout.buffer


def hexed(data):
    return binascii.hexlify(bytes(data)).decode("ascii")


def floated(value):
    return "nan" if value != value else hexed(struct.pack(">d", value))


def texted(value):
    encoded = value.encode("utf-16-be") if PY2 else value.encode("utf-16-be", "surrogatepass")
    return "s" + hexed(encoded)


def describe(value, seen):
    """The value with all its types, as text that test/support/python-values.ts makes too."""
    kind = type(value)
    if value is None:
        return "None"
    if kind is bool:
        return str(value)
    if kind in int_types:
        return "i%x" % value
    if kind is float:
        return "f" + floated(value)
    if kind is complex:
        return "c%s,%s" % (floated(value.real), floated(value.imag))
    if kind is text_type:
        return texted(value)
    if kind is bytes:
        if PY2 and all(ord(char) < 128 for char in value):
            return texted(value.decode("ascii"))
        return "b" + hexed(value)
    if kind is tuple:
        return "(%s)" % ",".join([describe(item, seen) for item in value])
    if kind is frozenset:
        return "Z{%s}" % ",".join(sorted([describe(item, seen) for item in value]))
    if kind is range_type:
        return "r%x,%x,%x" % (value.start, value.stop, value.step)
    if kind is bytearray:
        # Without its identity: the Python pickler loses it in protocol 5 (3.8 to 3.12).
        return "B" + hexed(value)
    if isinstance(value, BaseException):
        name = "queue.%s" % kind.__name__ if kind in (queue.Empty, queue.Full) else kind.__name__
        return "!%s%s" % (name, describe(value.args, seen))
    if id(value) in seen:
        return "@%d" % seen[id(value)]
    seen[id(value)] = len(seen)
    if kind is list:
        return "[%s]" % ",".join([describe(item, seen) for item in value])
    if kind is set:
        return "S{%s}" % ",".join(sorted([describe(item, seen) for item in value]))
    if kind is dict:
        items = value.items()
        pairs = [(describe(key, seen), item) for key, item in items]
        if PY2:
            # No order of its own; keys are immutable, so that they are described in any.
            pairs.sort(key=lambda pair: pair[0])
        return "{%s}" % ",".join(["%s:%s" % (key, describe(item, seen)) for key, item in pairs])
    return "?" + kind.__name__


def dump(value, pickler, protocol, prepare=None):
    output = io.BytesIO()
    instance = pickler(output, protocol)
    if prepare:
        prepare(instance)
    instance.dump(value)
    return output.getvalue()


def protocols():
    return range(pickle.HIGHEST_PROTOCOL + 1)


def load(data):
    value = pickle.loads(data)
    parts = [describe(value, {}).encode("ascii")]
    if isinstance(value, BaseException):
        return parts
    for protocol in protocols():
        for pickler in PICKLERS:
            parts.append(dump(value, pickler, protocol))
    return parts


class Reduces(object):
    def __init__(self, function, *args):
        self.answer = (function, args)

    def __reduce__(self):
        return self.answer


class Plain(object):
    def __init__(self):
        self.field = 1


class Stateful(object):
    def __getstate__(self):
        return {"a": 1}

    def __setstate__(self, state):
        raise SystemExit(1)


class WithKeywords(object):
    def __new__(cls, **kwargs):
        return object.__new__(cls)

    def __getnewargs_ex__(self):
        return (), {"a": 1}


class Listed(list):
    pass


class Extended(object):
    pass


def hostile():
    """(name, pickle) of everything that asks for more than data."""
    import collections
    import datetime
    import decimal
    import functools

    copyreg.add_extension(__name__, "Extended", 240)
    values = [
        ("system", Reduces(os.system, "exit 1")),
        ("eval", Reduces(eval, "1/0")),
        ("getattr", Reduces(getattr, "a", "upper")),
        ("partial", functools.partial(os.system, "exit 1")),
        ("plain", Plain()),
        ("stateful", Stateful()),
        ("keywords", WithKeywords()),
        ("listed", Listed([1])),
        ("extension", Extended),
        ("class", Plain),
        ("list class", list),
        ("set class in a tuple", (1, set)),
        ("exception", ValueError("x")),
        ("datetime", datetime.datetime(2020, 1, 1)),
        ("decimal", decimal.Decimal("1.5")),
        ("ordered", collections.OrderedDict([(1, 2)])),
        ("deque", collections.deque([1])),
        ("function", os.getcwd),
    ]
    parts = []

    def add(name, protocol, data):
        parts.extend([("%s, protocol %d" % (name, protocol)).encode("ascii"), data])

    for protocol in protocols():
        for name, value in values:
            for nested in (value, {"a": [value]}):
                try:
                    data = dump(nested, PICKLERS[0], protocol)
                except (pickle.PicklingError, TypeError, ValueError):
                    continue  # This protocol cannot.
                add(name, protocol, data)
        if not PY2:

            class Persistent(pickle.Pickler):
                def persistent_id(self, obj):
                    return "an-id" if obj == "x" else None

            add("persistent", protocol, dump(["x"], Persistent, protocol))
        if protocol == 5:
            for data in (b"abc", bytearray(b"abc")):
                buffers = []
                pickled = pickle.dumps(
                    pickle.PickleBuffer(data), 5, buffer_callback=buffers.append
                )
                add("buffer", 5, pickled)
    return parts


def main():
    while True:
        header = STDIN.read(4)
        if len(header) < 4:
            return
        (length,) = struct.unpack(">I", header)
        body = STDIN.read(length)
        parts = load(body[1:]) if body[:1] == b"L" else hostile()
        reply = b"".join([struct.pack(">I", len(part)) + part for part in parts])
        STDOUT.write(struct.pack(">I", len(reply)) + reply)
        STDOUT.flush()


main()
