"""A small HTTP/1.1 client on raw sockets: whole requests or any bytes, keep-alive, pipelining, half-close; and many of
them at once. It reads answers strictly: an answer that breaks HTTP is an error of the test.

    with Connection(port) as c:
        answer = c.ask("POST", "/v1/orders", {"Authorization": "Bearer …"}, b"{…}")
"""
import asyncio
import json
import re
import socket

STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [\x20-\x7e]*")


class Malformed(Exception):
    """The server's answer is no HTTP."""


class Closed(Exception):
    """The connection ended before a whole answer; reset says how."""

    def __init__(self, reset, got=b""):
        super().__init__(f"{'reset' if reset else 'closed'} after {got[:200]!r}")
        self.reset, self.got = reset, got


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The problem's code, or the state of an accepted request."""
        if not self.headers.get("content-type", "").endswith("json"):
            return ""
        return self.json.get("code") or self.json.get("state", "")

    @property
    def closes(self):
        return self.headers.get("connection", "").lower() == "close"

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


def request(method, target, headers=None, body=None, host="seckill.test"):
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *(f"{k}: {v}" for k, v in (headers or {}).items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def parse(buffer):
    """(Answer, bytes used) or None while it is incomplete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > 65536:
            raise Malformed(buffer[:200])
        return None
    first, *lines = bytes(buffer[:end]).split(b"\r\n")
    match = STATUS.fullmatch(first)
    if not match:
        raise Malformed(first)
    headers = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.decode("ascii").lower()
        if not colon or name in headers or b"\n" in line or b"\r" in line:
            raise Malformed(line)
        headers[name] = value.strip().decode("latin-1")
    status, length = int(match[1]), headers.get("content-length")
    if length is None and not (status < 200 or status in (204, 304)):
        raise Malformed(f"no length in {bytes(buffer[:end])!r}")
    end += 4
    stop = end + int(length or 0)
    if len(buffer) < stop:
        return None
    return Answer(status, headers, bytes(buffer[end:stop])), stop


class Connection:
    """Blocking; one thread."""

    def __init__(self, port, timeout=20, address="127.0.0.1"):
        self.socket = socket.create_connection((address, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def send(self, data):
        self.socket.sendall(data)

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        """Ends with a RST instead of a FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close()

    def _more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            raise Closed(True, bytes(self.buffer)) from None
        if not data:
            raise Closed(False, bytes(self.buffer))
        self.buffer += data

    def answer(self):
        while True:
            found = parse(self.buffer)
            if found:
                del self.buffer[:found[1]]
                return found[0]
            self._more()

    def ask(self, method, target, headers=None, body=None):
        self.send(request(method, target, headers, body))
        return self.answer()

    def rest(self):
        """Whatever else comes until the end; Closed(reset=True) for a reset."""
        try:
            while True:
                self._more()
        except Closed as closed:
            if closed.reset:
                raise
        return bytes(self.buffer)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def get(port, target, headers=None):
    with Connection(port) as c:
        return c.ask("GET", target, {"Connection": "close", **(headers or {})})


async def _one(port, data):
    buffer = bytearray()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        while True:
            found = parse(buffer)
            if found:
                return found[0]
            more = await reader.read(65536)
            if not more:
                return Closed(False, bytes(buffer))
            buffer += more
    except ConnectionError:
        return Closed(True, bytes(buffer))
    finally:
        writer.close()


def all_at_once(port, requests, limit=1000):
    """Each on a connection of its own, at most limit at a time; the answers (or Closed) in the same order."""
    async def run():
        gate = asyncio.Semaphore(limit)

        async def one(data):
            async with gate:
                return await _one(port, data)
        return await asyncio.gather(*(one(data) for data in requests))
    return asyncio.run(asyncio.wait_for(run(), 120))
