"""drop_reply before a real nginx (HTTP/1, HTTP/2) and a real etcd (gRPC)."""
import collections
import ctypes
import re
import socket
import struct

import pytest
from services import wait_for


@pytest.fixture
def files(nginx):
    sizes = {f"f{i}": 10 + i * 3000 for i in range(20)}
    sizes["big"] = 200_000
    for name, size in sizes.items():
        nginx.put(name, (name.encode() + b".") * (size // len(name)))
    return sizes


def dial(proxy):
    return socket.create_connection((proxy.front.host, proxy.front.port), timeout=10)


def read_all(s):
    got = b""
    while part := s.recv(65536):
        got += part
    return got


# --- HTTP/1 ---

@pytest.fixture
def h1(before, nginx, files):
    return before(f"unix:{nginx.dir}/h1")


def get(path, method="GET", more=""):
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


def test_h1_unheard(h1, nginx):
    """Of a pipeline the replies before it arrive, of every shape."""
    drop = h1.drop_reply("http1", "GET /f7", then="close")
    served = len(nginx.served())
    with dial(h1) as s:
        s.sendall(get("/f1") + get("/f7", "HEAD") + get("/none") + get("/f2", more="If-None-Match: *\r\n") +
                  get("/f3") + get("/missing") + get("/f7") + get("/f4"))
        got = read_all(s)
    assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"200", b"200", b"204", b"304", b"200", b"404"]
    assert got.endswith(b"</html>\r\n") and b"f3." in got and b"f7." not in got and b"f4." not in got
    assert drop.stats["dropped"] == drop.stats["matched"] == 1
    wait_for("nginx", lambda: any(line.startswith("GET /f7 200") for line in nginx.served()[served:]))


def test_h1_swallow(h1):
    drop = h1.drop_reply("http1", "/big")
    with dial(h1) as s:
        s.sendall(get("/f1") + get("/big") + get("/f2"))
        drop.wait_for(dropped=1, collateral=1)
        assert drop.stats["swallowed"] > 199_000
        s.settimeout(0.2)
        got = b""
        with pytest.raises(TimeoutError):
            while True:
                got += s.recv(65536)
        assert got.count(b"HTTP/1.1") == 1


def test_h1_until_the_connection_ends(h1):
    drop = h1.drop_reply("http1", "GET /f1", then="close")
    with dial(h1) as s:
        s.sendall(b"GET /f1 HTTP/1.0\r\n\r\n")
        assert read_all(s) == b""
    assert drop.stats["dropped"] == 1


def test_h1_chunked(faults):
    """A server of our own: chunks, an interim reply, and a reply that comes with the end of the request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = faults.add("p", "127.0.0.1:%d" % listener.getsockname()[1])
        drop = proxy.drop_reply("http1", "POST /b", then="close")
        with socket.create_connection((proxy.host, proxy.port), timeout=10) as s:
            server, _ = listener.accept()
            with server:
                body = "Transfer-Encoding: chunked\r\n"
                s.sendall(get("/a", "POST", body) + b"3\r\nabc\r\n0\r\n\r\n" + get("/b", "POST", "Content-Length: 1\r\n") + b"z")
                first = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                server.sendall(first + b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n")
                drop.wait_for(swallowed=40)
                assert drop.stats["dropped"] == 0  # not complete yet
                server.sendall(b"hello\r\n0\r\n\r\n")
                assert read_all(s) == first
    assert drop.stats["dropped"] == 1


# --- HTTP/2 ---

@pytest.fixture
def h2(before, nginx, files):
    return before(f"unix:{nginx.dir}/h2")


def whole(nginx, path):
    """Status, body and x-served of a reply."""
    with open(f"{nginx.dir}/www{path.split('?')[0]}", "rb") as f:
        return 200, f.read(), path


class Nv(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("value", ctypes.c_void_p), ("namelen", ctypes.c_size_t),
                ("valuelen", ctypes.c_size_t), ("flags", ctypes.c_uint8)]


class Inflater:
    """libnghttp2's reader of header blocks: strict about the table's state."""

    lib = ctypes.CDLL("libnghttp2.so.14")
    lib.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t

    def __init__(self):
        self.of = ctypes.c_void_p()
        assert self.lib.nghttp2_hd_inflate_new(ctypes.byref(self.of)) == 0

    def read(self, block):
        fields, nv, flags = {}, Nv(), ctypes.c_int()
        while True:
            n = self.lib.nghttp2_hd_inflate_hd2(self.of, ctypes.byref(nv), ctypes.byref(flags), block,
                                                ctypes.c_size_t(len(block)), 1)
            assert n >= 0, "the header block cannot be read"
            block = block[n:]
            if flags.value & 2:
                fields[ctypes.string_at(nv.name, nv.namelen).decode()] = ctypes.string_at(nv.value, nv.valuelen).decode()
            if flags.value & 1:
                self.lib.nghttp2_hd_inflate_end_headers(self.of)
                return fields

    def close(self):
        self.lib.nghttp2_hd_inflate_del(self.of)


class Frames:
    """A client of HTTP/2 by hand, with the windows the protocol begins with (65,535 bytes). Of each stream what came so
    far: .fields, .body and .end ("end", an error's number, or None)."""

    class Stream:
        def __init__(self):
            self.fields, self.body, self.end = {}, b"", None

        @property
        def reply(self):
            return int(self.fields[":status"]), self.body, self.fields["x-served"]

    def __init__(self, proxy, seconds=10):
        self.s = dial(proxy)
        self.s.settimeout(seconds)
        self.inflater, self.streams, self.raw = Inflater(), collections.defaultdict(self.Stream), b""
        self.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.send(4)
        self.block = b""
        self.next = 1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.s.close()
        self.inflater.close()

    def send(self, type, flags=0, stream=0, payload=b""):
        self.s.sendall(struct.pack(">I", len(payload))[1:] + bytes([type, flags]) + struct.pack(">I", stream) + payload)

    def request(self, path):
        """The stream."""
        fields = ((b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"x"), (b":path", path.encode()))
        self.send(1, 5, self.next, b"".join(b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in fields))
        self.next += 2
        return self.streams[self.next - 2]

    def exactly(self, n):
        got = b""
        while len(got) < n:
            part = self.s.recv(n - len(got))
            if not part:
                raise EOFError
            got += part
        self.raw += got
        return got

    def frame(self):
        head = self.exactly(9)
        type, flags, of = head[3], head[4], int.from_bytes(head[5:], "big")
        payload = self.exactly(int.from_bytes(head[:3], "big"))
        stream = self.streams[of] if of else None
        if type == 4 and not flags & 1:
            self.send(4, 1)
        elif type == 0:
            stream.body += payload
            for where in (0, of):
                if payload:
                    self.send(8, 0, where, struct.pack(">I", len(payload)))
        elif type in (1, 9):
            self.block += payload
            if flags & 4:
                stream.fields.update(self.inflater.read(self.block))
                self.block = b""
        elif type == 3:
            stream.end = int.from_bytes(payload, "big")
        if stream and type in (0, 1) and flags & 1:
            stream.end = "end"

    def until_ended(self, *streams):
        while not all(s.end is not None for s in streams):
            self.frame()


@pytest.mark.parametrize("then", ["swallow", "reset"])
def test_h2_only_the_matched_stream(h2, nginx, then):
    paths = [f"/f{i}" for i in range(20)] + ["/big"]
    drop = h2.drop_reply("http2", "GET /f7", then=then)
    with Frames(h2) as client:
        streams = {path: client.request(path) for path in paths}
        lost = streams.pop("/f7")
        client.until_ended(*streams.values())
        assert {p: s.reply for p, s in streams.items()} == {p: whole(nginx, p) for p in streams}
        drop.wait_for(dropped=1)
        if then == "reset":
            client.until_ended(lost)
            assert lost.end == 2  # INTERNAL_ERROR: whether the server acted nobody can tell
        again = client.request("/f7")
        client.until_ended(again)
        assert again.reply == whole(nginx, "/f7")
        assert not lost.fields and not lost.body and lost.end == (2 if then == "reset" else None)
    assert drop.stats["matched"] == 2 and drop.stats["chosen"] == 1
    assert drop.stats["swallowed"] > len(whole(nginx, "/f7")[1])


def test_h2_header_blocks_after_a_drop(h2, nginx):
    """The dropped replies' header blocks were to fill the client's table: later ones are understood all the same."""
    h2.drop_reply("http2", "?lost", count=0, then="reset")
    with Frames(h2) as client:
        for i in range(20):
            path = f"/f{i}{'?lost' if i % 3 == 1 else ''}"
            stream = client.request(path)
            client.until_ended(stream)
            if "lost" in path:
                assert stream.end == 2 and not stream.fields
            else:
                assert stream.reply == whole(nginx, path) and "last-modified" in stream.fields


def test_h2_close(h2, nginx):
    drop = h2.drop_reply("http2", "/f7", then="close")
    with Frames(h2) as client:
        first, second = client.request("/f1"), client.request("/f7")
        client.until_ended(first)
        with pytest.raises((EOFError, ConnectionError)):
            while True:
                client.frame()
        assert first.reply == whole(nginx, "/f1") and not second.fields
    assert drop.stats["dropped"] == 1


def test_h2_windows_of_what_was_swallowed(h2, nginx):
    """More than the connection's window is swallowed, and the server can still send: its complete reply is read."""
    drop = h2.drop_reply("http2", "/big", nth=2)
    with Frames(h2) as client:
        for path, lost in (("/f1", False), ("/big", False), ("/big", True), ("/f19", False), ("/big", False)):
            stream = client.request(path)
            if lost:
                continue
            client.until_ended(stream)
            assert stream.reply == whole(nginx, path)
        drop.wait_for(dropped=1)
        assert drop.stats["swallowed"] >= len(whole(nginx, "/big")[1])


def test_h2_stays_byte_for_byte_until_a_drop(h2, nginx, faults):
    """A toxic that matches nothing changes nothing."""
    h2.drop_reply("http2", "/other")
    direct = faults.add("plain", f"unix:{nginx.dir}/h2")
    direct.front = direct
    raw = []
    for proxy in (h2, direct):
        with Frames(proxy) as client:
            for path in ("/f1", "/f2", "/f3"):
                client.until_ended(client.request(path))
            raw.append(re.sub(rb"[A-Z][a-z]{2}, \d\d .{16} GMT", b"DATE", client.raw))
    assert len(raw[0]) > 9000 and len(raw[0]) == len(raw[1])


def test_etcd_put_stored_but_unheard(before, etcd):
    proxy = before(etcd.client)
    put = "/etcdserverpb.KV/Put"
    assert etcd.ctl(proxy.front, "put", "a", "0") == (0, "OK")
    with proxy.drop_reply("http2", put) as drop:
        status, _ = etcd.ctl(proxy.front, "put", "a", "1")
        assert status != 0
        assert etcd.ctl(etcd.client, "get", "a", "--print-value-only") == (0, "1")
        assert drop.stats["dropped"] == 1
    for i, then in enumerate(("reset", "close")):
        with proxy.drop_reply("http2", put, then=then) as drop:
            etcd.ctl(proxy.front, "put", "b", str(i))  # whether it is tried again is the client's affair
            assert etcd.ctl(etcd.client, "get", "b", "--print-value-only") == (0, str(i))
            assert drop.stats["dropped"] == 1
    assert etcd.ctl(proxy.front, "get", "a", "--print-value-only") == (0, "1")


# --- bytes ---

def test_bytes(before, echo):
    proxy = before(echo.address)
    drop = proxy.drop_reply("bytes", "needle", then="close")
    with dial(proxy) as s:
        s.sendall(b"hay ")
        assert s.recv(4)
        s.sendall(b"nee")
        wait_for("the echo", lambda: echo.received == [b"hay nee"])
        s.sendall(b"dle")
        rest = read_all(s)
    assert b"dle" not in rest
    assert echo.received == [b"hay needle"]
    assert drop.stats["dropped"] == 1


def test_bytes_of_any_request(before, echo):
    proxy = before(echo.address)
    drop = proxy.drop_reply("bytes", nth=1)
    with dial(proxy) as s:
        s.sendall(b"x")
        drop.wait_for(dropped=1)
        s.settimeout(0.1)
        with pytest.raises(TimeoutError):
            s.recv(1)
