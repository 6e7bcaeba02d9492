import os
import socket
import sys
import threading

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from faultproxy import FaultProxy  # noqa: E402
from services import postgres, redis_server  # noqa: E402, F401


class Echo:
    """Sends back what it reads; ends a connection when its client does. It keeps what each connection sent, and the
    sizes of its reads."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.received, self.reads, self.ended = [], [], []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            n = len(self.received)
            self.received.append(b"")
            self.reads.append([])
            self.ended.append(None)
            threading.Thread(target=self._serve, args=(s, n), daemon=True).start()

    def _serve(self, s, n):
        with s:
            try:
                while data := s.recv(65536):
                    self.received[n] += data
                    self.reads[n].append(len(data))
                    s.sendall(data)
                self.ended[n] = "end"
            except OSError as e:
                self.ended[n] = type(e).__name__

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def echo():
    e = Echo()
    yield e
    e.close()


@pytest.fixture
def faults():
    with FaultProxy(seed=11) as f:
        yield f
        f.down()
        log = open(f"{f.dir}/log").read()
        assert log == "", log  # no sanitizer has anything to say, at its end neither


@pytest.fixture
def link(faults, echo):
    """A proxy before the echo."""
    return faults.add("echo", echo.address)
