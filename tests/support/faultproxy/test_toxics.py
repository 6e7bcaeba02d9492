"""Each toxic of Toxiproxy, and black holes and half-closes, before an echo server."""
import socket
import struct
import time

import pytest
from faultproxy import FaultProxy
from services import wait_for

DATA = bytes(range(256)) * 40


def dial(link, timeout=10):
    return socket.create_connection((link.host, link.port), timeout=timeout)


def read_all(s):
    parts = []
    while part := s.recv(65536):
        parts.append(part)
    return b"".join(parts)


def exchange(s, data=b"hello"):
    s.sendall(data)
    got = b""
    while len(got) < len(data):
        part = s.recv(65536)
        assert part, "closed"
        got += part
    return got


def silent(s, seconds=0.15):
    """Whether nothing comes."""
    before = s.gettimeout()
    s.settimeout(seconds)
    try:
        return s.recv(1) is None
    except TimeoutError:
        return True
    finally:
        s.settimeout(before)


def test_passes_everything(link, echo):
    with dial(link) as s:
        assert exchange(s, DATA) == DATA
        s.shutdown(socket.SHUT_WR)  # a half-close is handed on, and comes back as the echo's own
        assert read_all(s) == b""
    wait_for("the echo", lambda: echo.ended == ["end"])
    wait_for("the proxy", lambda: link.get()["stats"] == {"connections": 0, "accepted": 1, "refused": 0})


def test_large_with_backpressure(link, echo):
    """A client that sends without reading is held back, and everything arrives in the end."""
    total = 32 << 20
    with dial(link) as s:
        s.settimeout(0.3)
        sent = 0
        try:
            while sent < total:
                sent += s.send(DATA[:4096] * 16)
        except TimeoutError:
            pass
        assert sent < total  # bounded by the buffers of the proxy and of the sockets
        s.settimeout(10)
        got = 0
        s.shutdown(socket.SHUT_WR)
        while part := s.recv(1 << 20):
            got += len(part)
        assert got == sent


def test_reset_is_handed_on(link, echo):
    with dial(link) as s:
        exchange(s)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for("the echo", lambda: echo.ended == ["ConnectionResetError"])


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_latency(link, echo, stream):
    with dial(link) as s:
        exchange(s)
        with link.toxic("latency", stream, latency=120):
            start = time.monotonic()
            exchange(s, DATA)
            assert time.monotonic() - start >= 0.119
        with link.toxic("latency", stream, latency=30000) as late:
            s.sendall(b"held")
            assert silent(s)
            late.update(latency=0)  # what waits is looked at again
            assert s.recv(4) == b"held"
            late.update(latency=30000)
            s.sendall(b"kept")
            assert silent(s)
        assert s.recv(4) == b"kept"  # the removal lets it go


def test_jitter_keeps_the_order(link, echo, faults):
    with dial(link) as s, link.toxic("latency", latency=20, jitter=15):
        for i in range(20):
            s.sendall(bytes([i]) * 10)
            wait_for("the echo", lambda: sum(map(len, echo.received)) == 10 * (i + 1))
        got = b""
        while len(got) < 200:
            got += s.recv(200)
    assert got == b"".join(bytes([i]) * 10 for i in range(20))
    delays = {d["at"]: d["delay_us"] for d in faults.decisions("latency")}
    assert all(5000 <= d <= 35000 for d in delays.values()) and len(set(delays.values())) > 3


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_bandwidth(link, echo, stream):
    with dial(link) as s, link.toxic("bandwidth", stream, rate=100):
        start = time.monotonic()
        assert exchange(s, bytes(30000)) == bytes(30000)
        assert time.monotonic() - start >= 0.29


def test_slow_close(link, echo):
    with dial(link) as s, link.toxic("slow_close", delay=200):
        exchange(s)
        start = time.monotonic()
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b""
        assert time.monotonic() - start >= 0.199


def test_timeout(link, echo):
    with dial(link) as s, link.toxic("timeout", timeout=200):
        s.sendall(b"x")
        start = time.monotonic()
        assert read_all(s) == b""
        assert time.monotonic() - start > 0.1
        assert echo.received == [b"x"]  # downstream: the server has heard it


def test_timeout_without_end_closes_when_removed(link, echo):
    with dial(link) as s:
        with link.toxic("timeout", "upstream", timeout=0):
            s.sendall(b"x")
            assert silent(s)
        assert read_all(s) == b""
    assert echo.received == [b""]


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_reset_peer(link, echo, stream):
    with dial(link) as s:
        exchange(s)
        with link.toxic("reset_peer", stream, timeout=100):
            s.sendall(b"x")
            with pytest.raises(ConnectionResetError):
                s.recv(1)
    wait_for("the echo", lambda: echo.ended == ["ConnectionResetError"])


def test_slicer(link, echo, faults):
    with dial(link) as s, link.toxic("slicer", "upstream", average_size=10, size_variation=5, delay=2000):
        assert exchange(s, DATA[:300]) == DATA[:300]
    reads = echo.reads[0]
    assert len(reads) >= 15 and all(n >= 5 for n in reads[:-1])


@pytest.mark.parametrize("limit", [0, 1, 5, 100])
def test_limit_data(link, echo, limit):
    with dial(link) as s, link.toxic("limit_data", bytes=limit):
        s.sendall(DATA[:200])
        assert read_all(s) == DATA[:limit]


def test_limit_data_counts_from_the_toxic(link, echo):
    with dial(link) as s, link.toxic("limit_data", "upstream", bytes=10):
        exchange(s, b"12345")
        s.sendall(b"67890abc")
        assert read_all(s) in (b"", b"67890")  # both directions end
    wait_for("the echo", lambda: echo.received == [b"1234567890"])


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_blackhole(link, echo, stream):
    with dial(link) as s:
        exchange(s)
        with link.toxic("blackhole", stream) as hole:
            s.sendall(b"lost")
            hole.wait_for(swallowed=4)
            assert silent(s)
        assert exchange(s, b"again") == b"again"  # the connection stays
    assert echo.received == [b"helloagain" if stream == "upstream" else b"hellolostagain"]


def test_blackhole_hides_the_end(link, echo):
    with link.toxic("blackhole", "upstream"):
        with dial(link) as s:
            s.sendall(b"x")
            s.shutdown(socket.SHUT_WR)
            assert silent(s)
        assert echo.ended == [None]
    wait_for("the echo", lambda: echo.ended == ["end"])  # it is told when the hole is gone


def test_half_close(link, echo):
    with dial(link) as s, link.toxic("half_close", bytes=3):
        s.sendall(b"12345")
        assert read_all(s) == b"123"
        s.sendall(b"678")  # the other direction goes on
        wait_for("the echo", lambda: echo.received == [b"12345678"])
        assert link.get()["stats"]["connections"] == 1


def test_toxics_of_both_directions_in_a_row(link, echo):
    with dial(link) as s, link.toxic("latency", "upstream", latency=50), link.toxic("latency", latency=50, name="a"), \
            link.toxic("latency", latency=50, name="b"), link.toxic("slicer", average_size=100):
        start = time.monotonic()
        assert exchange(s, DATA) == DATA
        assert time.monotonic() - start >= 0.149


def test_toxicity_and_replay(echo):
    """The same seed meets the same connections; another seed others."""
    def hit(seed):
        with FaultProxy(seed=seed) as faults:
            link = faults.add("echo", echo.address)
            toxic = link.toxic("limit_data", toxicity=0.5, bytes=2)
            hits = []
            for _ in range(40):
                with dial(link) as s:
                    s.sendall(b"hello")
                    hits.append(len(s.recv(5)) == 2)
            assert toxic.stats["connections"] == sum(hits)
            decided = faults.decisions("toxicity")
            assert [d["applied"] for d in decided] == hits
            return hits, faults.decisions()

    first = hit(1)
    assert hit(1) == first
    assert 5 < sum(first[0]) < 35
    assert hit(2)[0] != first[0]


def test_down_and_up(link, echo, faults):
    with dial(link) as s:
        exchange(s)
        with link.down():
            assert read_all(s) == b""
            with pytest.raises(ConnectionRefusedError):
                dial(link)
    with dial(link) as s:
        exchange(s)


def test_upstream_away(faults, echo):
    dead = socket.create_server(("127.0.0.1", 0))
    link = faults.add("dead", "127.0.0.1:%d" % dead.getsockname()[1])
    dead.close()
    with dial(link) as s:
        assert read_all(s) == b""
    assert faults.decisions("upstream_failed")
    link.point_at(echo.address)
    with dial(link) as s:
        exchange(s)


def test_unix_sockets(faults, echo):
    front = faults.add("front", echo.address, listen=f"unix:{faults.dir}/front")
    both = faults.add("both", front)
    with dial(both) as s:
        assert exchange(s, DATA) == DATA
    front.remove()
    with dial(both) as s:
        assert read_all(s) == b""


def test_ends_with_connections_open(echo):
    with FaultProxy() as faults:
        link = faults.add("echo", echo.address)
        link.toxic("latency", latency=60000)
        with dial(link) as s:
            s.sendall(DATA)
            wait_for("the echo", lambda: echo.received == [DATA])
            faults.down()
            assert read_all(s) == b""
