"""Our fault proxy (tests/support/faultproxy) for pytest suites:

    with FaultProxy(seed=7) as faults:
        redis = faults.add("redis", f"unix:{server.socket}")      # the address it listens at, a str: "127.0.0.1:40123"
        with redis.toxic("latency", latency=200, jitter=50):      # until the end of the block
            …
        lost = redis.drop_reply("resp", "EVALSHA", nth=3, then="close")
        …
        lost.wait_for(dropped=1)                                  # the server has answered, the client never hears it

Whatever is decided at random follows from the seed: faults.decisions() are the same in the next run with it.
"""
import contextlib
import hashlib
import json
import os
import urllib.error
import urllib.parse
import urllib.request

from services import SOURCE, Server, wait_for

BIN = os.environ.get("SECKILL_BIN_DIR", f"{SOURCE}/build/dev/bin")
# The control API is never to be reached through a proxy of the environment.
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def script(name):
    """What matches a run of lua/NAME.lua, however it is called (EVALSHA or EVAL)."""
    with open(f"{SOURCE}/lua/{name}.lua", "rb") as f:
        return hashlib.sha1(f.read()).hexdigest()


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status, self.body = status, body


class Toxic:
    """One toxic of a proxy; a context manager that removes it."""

    def __init__(self, proxy, name):
        self.proxy, self.name = proxy, name
        self.path = f"{proxy.path}/toxics/{urllib.parse.quote(name, safe='')}"

    def get(self):
        return self.proxy.faults.call("GET", self.path)

    @property
    def stats(self):
        return self.get()["stats"]

    def update(self, toxicity=None, **attributes):
        body = {"attributes": attributes} if toxicity is None else {"attributes": attributes, "toxicity": toxicity}
        return self.proxy.faults.call("POST", self.path, body)

    def wait_for(self, **at_least):
        """Until each of these counters has that value, e.g. dropped=1."""
        return wait_for(f"{self.name} to have {at_least}",
                        lambda: all(self.stats[k] >= v for k, v in at_least.items()))

    def remove(self):
        self.proxy.faults.call("DELETE", self.path)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(ApiError):  # a reset may have removed it
            self.remove()


class Proxy(str):
    """The address a proxy listens at, with what can be done to it."""

    def __new__(cls, faults, name, listen):
        self = super().__new__(cls, listen)
        self.faults, self.name = faults, name
        self.path = f"/proxies/{urllib.parse.quote(name, safe='')}"
        return self

    @property
    def host(self):
        return self.rsplit(":", 1)[0].strip("[]")

    @property
    def port(self):
        return int(self.rsplit(":", 1)[1])

    @property
    def socket(self):
        """Of an address unix:/path."""
        return self[len("unix:"):]

    def get(self):
        return self.faults.call("GET", self.path)

    def toxic(self, type, stream="downstream", toxicity=1.0, name=None, **attributes):
        body = {"type": type, "stream": stream, "toxicity": toxicity, "attributes": attributes}
        if name:
            body["name"] = name
        return Toxic(self, self.faults.call("POST", f"{self.path}/toxics", body)["name"])

    def drop_reply(self, protocol, match="", then="swallow", nth=1, count=1, percent=100, **more):
        """The server acts on a request that matches, and its reply never reaches the client. What matches is said in
        faultproxy/{resp,pgsql,http1,http2}.c; of the matches, from the nth on `count` (0: all), each with `percent`."""
        return self.toxic("drop_reply", protocol=protocol, match=match, then=then, nth=nth, count=count, percent=percent, **more)

    def enable(self):
        self.faults.call("POST", self.path, {"enabled": True})

    def disable(self):
        """Refuses connections and cuts those there are."""
        self.faults.call("POST", self.path, {"enabled": False})

    @contextlib.contextmanager
    def down(self):
        self.disable()
        try:
            yield self
        finally:
            self.enable()

    def point_at(self, upstream):
        """Another server behind the same address; connections are cut."""
        self.faults.call("POST", self.path, {"upstream": upstream})

    def remove(self):
        self.faults.call("DELETE", self.path)


class FaultProxy(Server):
    def __init__(self, seed=None):
        super().__init__()
        self.seed = seed
        self.control = None  # http://127.0.0.1:PORT, for Toxiproxy's own clients too

    def command(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.dir}/ports")
        seed = [] if self.seed is None else ["--seed", str(self.seed)]
        return [f"{BIN}/faultproxy", "--ports-file", f"{self.dir}/ports", "--log", f"{self.dir}/decisions", *seed]

    def ready(self):
        try:
            with open(f"{self.dir}/ports") as f:
                self.control = f"http://127.0.0.1:{f.read().strip().removeprefix('control=')}"
            self.seed = self.call("GET", "/version")["seed"]
            return True
        except (FileNotFoundError, urllib.error.URLError):
            return False

    def call(self, method, path, body=None):
        """One call of the control API; the answer's JSON, None where there is none."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with _open(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as e:
            raise ApiError(e.code, json.loads(e.read() or b"null")) from None
        return json.loads(text) if text else None

    def add(self, name, upstream, listen="127.0.0.1:0"):
        """upstream, listen: "host:port" or "unix:/path"."""
        made = self.call("POST", "/proxies", {"name": name, "listen": listen, "upstream": upstream, "enabled": True})
        return Proxy(self, name, made["listen"])

    def reset(self):
        """All proxies enabled, all toxics removed."""
        self.call("POST", "/reset")

    def decisions(self, *events):
        """What was decided so far, without the times."""
        with open(f"{self.dir}/decisions") as f:
            lines = [json.loads(line) for line in f]
        return [{k: v for k, v in line.items() if k != "t_us"} for line in lines if not events or line["event"] in events]
