"""Whatever it takes the bytes for, it hands them on: random bytes and broken protocols, in both directions."""
import random
import socket
import threading

import pytest
from services import wait_for

STARTS = {
    "resp": [b"*1\r\n$4\r\nPING\r\n", b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", b"$-1\r\n", b"%1\r\n+a\r\n:1\r\n", b">1\r\n+x\r\n", b"*-5\r\n",
             b"|1\r\n+a\r\n+b\r\n", b"+OK\r\n", b"-ERR\r\n", b"*99999999999\r\n", b"$99999999999999999999\r\n", b"\r\n"],
    "pgsql": [b"\0\0\0\x08\0\3\0\0", b"Q\0\0\0\x0dSELECT 1\0", b"P\0\0\0\x08\0a\0\0", b"E\0\0\0\x09\0\0\0\0\0", b"S\0\0\0\4",
              b"Z\0\0\0\5I", b"C\0\0\0\x0bCOMMIT\0", b"B\0\0\0\4", b"C\0\0\0\x00", b"P\0\0\xff\xff", b"N\0\0\0\4", b"E\0\0\0\5\0"],
    "http1": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"POST /x HTTP/1.1\r\n"
              b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 101 x\r\n\r\n"],
    "http2": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\4\0\0\0\0\0", b"\0\0\1\1\5\0\0\0\1\x82", b"\0\0\1\1\x0d\0\0\0\3\xff",
              b"\0\0\4\x08\0\0\0\0\0\0\0\0\1", b"\0\0\3\0\1\0\0\0\1abc", b"\0\0\1\x09\4\0\0\0\1\x84", b"\xff\xff\xff\0\0\0\0\0\1",
              b"\0\0\6\4\0\0\0\0\0\0\1\0\0\0\0"],
    "bytes": [b"anything", b"\xff\xfe", b"", b"*x"],
}


def stream(kind, rng):
    parts = STARTS[kind][:1] + [rng.choice(STARTS[kind]) for _ in range(rng.randrange(30))]
    data = bytearray(b"".join(parts) or b"x")
    for _ in range(rng.choice((0, 0, 1, 3, 10))):
        at = rng.randrange(len(data))
        data[at:at + rng.randrange(2)] = rng.randbytes(rng.randrange(3))
    return bytes(data) or b"x"


@pytest.mark.parametrize("dropping", [False, True])
@pytest.mark.parametrize("kind", STARTS)
def test_any_bytes(faults, kind, dropping):
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = faults.add("p", "127.0.0.1:%d" % listener.getsockname()[1])
    if dropping:
        for i, then in enumerate(("swallow", "close", "reset")):
            proxy.toxic("drop_reply", name=str(i), protocol=kind, match="", count=0, percent=40, then=then)
    for seed in range(150):
        rng = random.Random(f"{kind} {seed}")
        request, reply, cut = stream(kind, rng), stream(kind, rng), rng.randrange(1, 20)
        with socket.create_connection((proxy.host, proxy.port), timeout=10) as client:
            server, _ = listener.accept()
            with server:
                server.settimeout(10)
                got = {"client": b"", "server": b""}

                def talk(s, name, data):
                    try:
                        for i in range(0, len(data), cut):
                            s.sendall(data[i:i + cut])
                        s.shutdown(socket.SHUT_WR)
                        while part := s.recv(65536):
                            got[name] += part
                    except TimeoutError:
                        got[name] += b"(timeout)"
                    except OSError:
                        got[name] += b"(reset)"

                other = threading.Thread(target=talk, args=(server, "server", reply))
                other.start()
                talk(client, "client", request)
                other.join()
        assert b"(timeout)" not in got["client"] + got["server"], seed
        # Of HTTP/2 that cannot be read not even half is passed on: the connection is reset.
        if not dropping and not (kind == "http2" and b"(reset)" in got["client"] + got["server"]):
            assert got == {"client": reply, "server": request}, seed
    listener.close()
    wait_for("the proxy to forget them", lambda: proxy.get()["stats"]["connections"] == 0)
