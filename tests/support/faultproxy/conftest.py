import os
import socket
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from faultproxy import FaultProxy  # noqa: E402
from services import Server, postgres, redis_server  # noqa: E402, F401


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


class PrivateNginx(Server):
    """Serves its directory www over HTTP/1 and HTTP/2 without TLS, on Unix sockets."""

    def command(self):
        os.makedirs(f"{self.dir}/www", exist_ok=True)
        with open(f"{self.dir}/conf", "w") as f:
            f.write(f"""daemon off; master_process off; pid {self.dir}/pid; error_log stderr error; worker_processes 1;
events {{ worker_connections 256; }}
http {{ access_log {self.dir}/access; client_body_temp_path {self.dir}/b; proxy_temp_path {self.dir}/p;
  fastcgi_temp_path {self.dir}/f; uwsgi_temp_path {self.dir}/u; scgi_temp_path {self.dir}/s; root {self.dir}/www;
  log_format line "$request_method $request_uri $status $bytes_sent"; access_log {self.dir}/access line;
  server {{ listen unix:{self.dir}/h1; location /none {{ return 204; }} }}
  server {{ listen unix:{self.dir}/h2 http2; add_header x-served $request_uri; location /none {{ return 204; }} }} }}
""")
        return ["/usr/sbin/nginx", "-c", f"{self.dir}/conf", "-e", "stderr"]

    def ready(self):
        for name in ("h1", "h2"):
            with socket.socket(socket.AF_UNIX) as s:
                if s.connect_ex(f"{self.dir}/{name}"):
                    return False
        return True

    def put(self, name, data):
        with open(f"{self.dir}/www/{name}", "wb") as f:
            f.write(data)

    def served(self):
        """Lines "METHOD URI STATUS BYTES" of complete replies."""
        with open(f"{self.dir}/access") as f:
            return f.read().splitlines()


class PrivateEtcd(Server):
    def command(self):
        with socket.create_server(("127.0.0.1", 0)) as a, socket.create_server(("127.0.0.1", 0)) as b:
            self.client, peer = ("127.0.0.1:%d" % s.getsockname()[1] for s in (a, b))
        return ["etcd", "--data-dir", f"{self.dir}/data", "--listen-client-urls", f"http://{self.client}",
                "--advertise-client-urls", f"http://{self.client}", "--listen-peer-urls", f"http://{peer}",
                "--initial-advertise-peer-urls", f"http://{peer}", "--initial-cluster", f"default=http://{peer}",
                "--log-level", "error"]

    def ctl(self, endpoint, *words):
        """etcdctl's exit status and output."""
        env = {**os.environ, "ETCDCTL_API": "3", "no_proxy": "*"}
        done = subprocess.run(["etcdctl", f"--endpoints=http://{endpoint}", "--command-timeout=2s", *words],
                              capture_output=True, text=True, env=env)
        return done.returncode, done.stdout.strip()

    def ready(self):
        return self.ctl(self.client, "endpoint", "health")[0] == 0


@pytest.fixture(scope="session")
def nginx():
    with PrivateNginx() as n:
        yield n


@pytest.fixture(scope="session")
def etcd():
    with PrivateEtcd() as e:
        yield e


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


@pytest.fixture(params=["whole", "in bits"])
def before(request, faults):
    """before(upstream): a proxy there, whose bytes come as they are, or in small pieces in both directions: what is found
    in them must not depend on how they are cut. Connect to .front."""
    def build(upstream):
        if request.param == "whole":
            proxy = faults.add("p", upstream)
            proxy.front = proxy
            return proxy
        bits = {"average_size": 7, "size_variation": 6}
        behind = faults.add("behind", upstream)
        behind.toxic("slicer", "downstream", **bits)
        proxy = faults.add("p", behind)
        proxy.front = faults.add("front", proxy)
        proxy.front.toxic("slicer", "upstream", **bits)
        return proxy
    return build
