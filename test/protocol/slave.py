"""A slave in another language, from PROTOCOL.md alone: Python 3, standard library only.

    ORB_AUTHKEY=... python3 slave.py HOST PORT PAGES

Joins, takes credit, gets tasks pushed, reports each with two links, waits for every
acknowledgement, says bye. Prints one JSON line a step; the test reads them.
"""
import hashlib, hmac, json, os, socket, struct, sys

HOST, PORT, PAGES = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
KEY = os.environ["ORB_AUTHKEY"].encode()


def pack(v):
    if v is None: return b"\xc0"
    if v is True or v is False: return b"\xc3" if v else b"\xc2"
    if isinstance(v, int):
        return bytes([v]) if 0 <= v < 128 else b"\xd3" + struct.pack(">q", v)
    if isinstance(v, float): return b"\xcb" + struct.pack(">d", v)
    if isinstance(v, str):
        b = v.encode()
        return b"\xdb" + struct.pack(">I", len(b)) + b
    if isinstance(v, bytes): return b"\xc6" + struct.pack(">I", len(v)) + v
    if isinstance(v, list): return b"\xdd" + struct.pack(">I", len(v)) + b"".join(map(pack, v))
    return b"\xdf" + struct.pack(">I", len(v)) + b"".join(pack(k) + pack(x) for k, x in v.items())


def unpack(b, i=0):
    """(value, next index) of the value that begins at i."""
    c = b[i]
    i += 1
    if c < 0x80: return c, i
    if c >= 0xE0: return c - 256, i
    if c in (0xC0, 0xC2, 0xC3): return {0xC0: None, 0xC2: False, 0xC3: True}[c], i
    numbers = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
               0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
    if c in numbers:
        n = struct.calcsize(numbers[c])
        return struct.unpack_from(numbers[c], b, i)[0], i + n
    sizes = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
    n = sizes.get(c, 0)
    count = int.from_bytes(b[i:i + n], "big") if n else c & (0x1F if c >= 0xA0 else 0x0F)
    i += n
    if c in (0xC4, 0xC5, 0xC6): return b[i:i + count], i + count
    if c in (0xD9, 0xDA, 0xDB) or 0xA0 <= c < 0xC0: return b[i:i + count].decode(), i + count
    if c in (0xDC, 0xDD) or 0x90 <= c < 0xA0:
        items = []
        for _ in range(count):
            v, i = unpack(b, i)
            items.append(v)
        return items, i
    fields = {}
    for _ in range(count):
        k, i = unpack(b, i)
        fields[k], i = unpack(b, i)
    return fields, i


def exactly(n):
    data = b""
    while len(data) < n:
        more = sock.recv(n - len(data))
        if not more: sys.exit("the master closed the connection")
        data += more
    return data


def recv(): return exactly(struct.unpack(">i", exactly(4))[0])
def send(payload): sock.sendall(struct.pack(">i", len(payload)) + payload)
def tell(**fields): print(json.dumps(fields), flush=True)
def mac(data): return hmac.new(KEY, data, hashlib.sha256).digest()


sock = socket.create_connection((HOST, PORT))
theirs = recv()[len(b"#CHALLENGE#"):]
send(b"{sha256}" + mac(theirs))
assert recv() == b"#WELCOME#", "wrong authkey"
ours = b"{sha256}" + os.urandom(40)
send(b"#CHALLENGE#" + ours)
assert recv() == b"{sha256}" + mac(ours), "not a master of ours"
send(b"#WELCOME#")

proof = lambda role: mac(b"orbweaver 2 %s\0" % role + theirs + ours)
send(pack({"verb": "hello", "id": 1, "protocol": 2, "role": "slave", "name": "snake",
           "proof": proof(b"slave")}))
hello = unpack(recv())[0]
assert hello["ok"] and hello["proof"] == proof(b"master"), hello
tell(step="joined", session=hello["session"])

send(pack({"verb": "task.credit", "count": 2}))
waiting, done, last = {}, 0, 1
while done < PAGES:
    message = unpack(recv())[0]
    if "id" in message:
        url = waiting.pop(message["id"])
        assert message["ok"], message
        done += 1
        tell(step="acknowledged", url=url, state=message["state"])
    elif message["verb"] == "ping":
        send(pack({"verb": "ping"}))
    elif message["verb"] == "task.push":
        for task in message["tasks"]:
            tell(step="task", url=task["url"], depth=task["depth"])
            last += 1
            waiting[last] = task["url"]
            links = b"".join(task["url"].encode() + x for x in (b"a\n", b"b\n"))
            send(pack({
                "verb": "task.report", "id": last, "task": task["task"], "lease": task["lease"],
                "result": pack({"finalUrl": task["url"], "status": 200, "type": "text/html",
                                "bytes": 42, "ms": 1.5, "title": "Schlange \u00fc"}),
                "images": pack([{"src": task["url"] + "i.png", "via": "img", "alt": "snake"}]),
                "links": links}))
send(pack({"verb": "bye", "id": last + 1}))
while "id" not in (message := unpack(recv())[0]): pass
assert message == {"id": last + 1, "ok": True}, message
tell(step="bye")
