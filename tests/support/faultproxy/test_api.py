"""The control API answers as Toxiproxy documents it (github.com/Shopify/toxiproxy, "HTTP API"); beside it stand only our
`stats` and the seed."""
import json
import re
import socket
import subprocess

import pytest
from faultproxy import BIN, ApiError


def bare(answer):
    """Without what is ours."""
    if isinstance(answer, list):
        return [bare(x) for x in answer]
    if isinstance(answer, dict):
        return {k: bare(v) for k, v in answer.items() if k != "stats"}
    return answer


def raw(faults, request):
    with socket.create_connection(("127.0.0.1", int(faults.control.rsplit(":", 1)[1])), timeout=10) as s:
        s.sendall(request)
        parts = []
        while part := s.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_proxies(faults):
    assert faults.call("GET", "/proxies") == {}
    made = faults.call("POST", "/proxies", {"name": "a", "listen": "localhost:0", "upstream": "localhost:1"})
    port = int(made["listen"].rsplit(":", 1)[1])
    assert port > 0  # a port 0 is told as what it became
    shown = {"name": "a", "listen": f"localhost:{port}", "upstream": "localhost:1", "enabled": True, "toxics": []}
    # Toxiproxy: a proxy is enabled when its creator does not say otherwise.
    assert bare(made) == shown
    assert bare(faults.call("GET", "/proxies")) == {"a": shown}
    assert bare(faults.call("GET", "/proxies/a")) == shown
    off = faults.call("POST", "/proxies/a", {"enabled": False})
    assert bare(off) == {**shown, "enabled": False}
    on = faults.call("PATCH", "/proxies/a", {"enabled": True, "upstream": "localhost:2"})
    assert bare(on) == {**shown, "upstream": "localhost:2"}
    assert faults.call("DELETE", "/proxies/a") is None
    assert faults.call("GET", "/proxies") == {}


def test_statuses_of_success(faults):
    def status(method, path, body=None):
        text = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n"
        return int(raw(faults, head.encode() + text).split()[1])

    proxy = {"name": "a", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"}
    assert status("POST", "/proxies", proxy) == 201
    assert status("POST", "/proxies/a", {}) == 200
    assert status("POST", "/proxies/a/toxics", {"type": "latency"}) == 200
    assert status("GET", "/proxies/a/toxics") == 200
    assert status("POST", "/proxies/a/toxics/latency_downstream", {}) == 200
    assert status("DELETE", "/proxies/a/toxics/latency_downstream") == 204
    assert status("POST", "/populate", [proxy]) == 201
    assert status("POST", "/reset") == 204
    assert status("DELETE", "/proxies/a") == 204


@pytest.mark.parametrize("type,attributes", [
    ("latency", {"latency": 100, "jitter": 10}),
    ("bandwidth", {"rate": 100}),
    ("slow_close", {"delay": 100}),
    ("timeout", {"timeout": 100}),
    ("reset_peer", {"timeout": 100}),
    ("slicer", {"average_size": 64, "size_variation": 32, "delay": 10}),
    ("limit_data", {"bytes": 100}),
    ("blackhole", {}),
    ("half_close", {"bytes": 7}),
])
def test_toxics(link, faults, type, attributes):
    made = faults.call("POST", "/proxies/echo/toxics", {"type": type, "attributes": attributes})
    shown = {"name": f"{type}_downstream", "type": type, "stream": "downstream", "toxicity": 1.0, "attributes": attributes}
    assert bare(made) == shown  # the defaults are Toxiproxy's
    path = f"/proxies/echo/toxics/{type}_downstream"
    assert bare(faults.call("GET", path)) == shown
    assert bare(faults.call("GET", "/proxies/echo/toxics")) == [shown]
    assert bare(faults.call("GET", "/proxies/echo"))["toxics"] == [shown]
    second = {"name": "x y", "type": type, "stream": "upstream", "toxicity": 0.25, "attributes": attributes}
    assert bare(faults.call("POST", "/proxies/echo/toxics", second)) == second
    assert bare(faults.call("GET", "/proxies/echo/toxics/x%20y")) == second
    changed = {name: value + 1 for name, value in attributes.items()}
    answer = faults.call("PATCH", path, {"attributes": changed, "toxicity": 0.5})
    assert bare(answer) == {**shown, "attributes": changed, "toxicity": 0.5}
    assert faults.call("DELETE", path) is None
    assert bare(faults.call("GET", "/proxies/echo/toxics")) == [second]


def test_drop_reply_defaults(link, faults):
    made = faults.call("POST", "/proxies/echo/toxics", {"type": "drop_reply"})
    assert made["attributes"] == {"protocol": "bytes", "match": "", "nth": 1, "count": 1, "percent": 100, "then": "swallow"}
    assert made["stats"] == {"connections": 0, "swallowed": 0, "matched": 0, "chosen": 0, "dropped": 0, "void": 0,
                             "collateral": 0}


def test_populate_and_reset(faults, echo):
    wanted = [{"name": "a", "listen": "127.0.0.1:0", "upstream": echo.address},
              {"name": "b", "listen": "127.0.0.1:0", "upstream": echo.address, "enabled": False}]
    answer = faults.call("POST", "/populate", wanted)
    assert [p["enabled"] for p in answer["proxies"]] == [True, False]
    faults.call("POST", "/proxies/a/toxics", {"type": "latency"})
    # One that is there with the same addresses stays as it is, toxics too; another address replaces it.
    wanted[0]["listen"] = answer["proxies"][0]["listen"]
    again = faults.call("POST", "/populate", wanted[:1])["proxies"][0]
    assert len(again["toxics"]) == 1
    wanted[0]["upstream"] = "127.0.0.1:1"
    again = faults.call("POST", "/populate", wanted[:1])["proxies"][0]
    assert again["toxics"] == [] and again["upstream"] == "127.0.0.1:1"
    faults.call("POST", "/proxies/a/toxics", {"type": "latency"})
    faults.reset()
    assert all(p["enabled"] and p["toxics"] == [] for p in faults.call("GET", "/proxies").values())


@pytest.mark.parametrize("method,path,body,status,error", [
    ("GET", "/proxies/none", None, 404, "proxy not found"),
    ("DELETE", "/proxies/none", None, 404, "proxy not found"),
    ("POST", "/proxies/none/toxics", {"type": "latency"}, 404, "proxy not found"),
    ("GET", "/proxies/echo/toxics/none", None, 404, "toxic not found"),
    ("DELETE", "/proxies/echo/toxics/none", None, 404, "toxic not found"),
    ("POST", "/proxies", {"listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"}, 400, "missing required field: name"),
    ("POST", "/proxies", {"name": "x"}, 400, "missing required field: upstream"),
    ("POST", "/proxies", {"name": "echo", "upstream": "127.0.0.1:1"}, 409, "proxy already exists"),
    ("POST", "/proxies", "text", 400, "bad request body"),
    ("POST", "/proxies", {"name": 7, "upstream": "127.0.0.1:1"}, 400, "bad request body"),
    ("POST", "/populate", {}, 400, "bad request body"),
    ("POST", "/proxies/echo/toxics", {"type": "nothing"}, 400, "invalid toxic type"),
    ("POST", "/proxies/echo/toxics", {}, 400, "invalid toxic type"),
    ("POST", "/proxies/echo/toxics", {"type": "latency", "stream": "both"}, 400,
     "stream was invalid, can be either upstream or downstream"),
    ("POST", "/proxies/echo/toxics", {"type": "latency", "attributes": {"latency": "1"}}, 400, "bad request body"),
    ("POST", "/proxies/echo/toxics", {"type": "latency", "attributes": {"latency": -1}}, 400, "bad request body"),
    ("POST", "/proxies/echo/toxics", {"type": "drop_reply", "attributes": {"then": "explode"}}, 400, "bad request body"),
    ("POST", "/proxies/echo/toxics", {"type": "drop_reply", "stream": "upstream"}, 400,
     "stream was invalid, this toxic is of replies: downstream"),
])
def test_errors(link, faults, method, path, body, status, error):
    with pytest.raises(ApiError) as e:
        faults.call(method, path, body)
    assert e.value.status == status
    assert e.value.body == {"error": error, "status": status}


def test_same_toxic_twice(link, faults):
    link.toxic("latency")
    with pytest.raises(ApiError) as e:
        link.toxic("latency")
    assert e.value.body == {"error": "toxic already exists", "status": 409}


def test_address_in_use(link, faults):
    with pytest.raises(ApiError) as e:
        faults.add("other", "127.0.0.1:1", listen=link)
    assert e.value.status == 500 and "in use" in e.value.body["error"]
    assert list(faults.call("GET", "/proxies")) == ["echo"]


def test_version(faults):
    version = faults.call("GET", "/version")
    assert version["version"].startswith("2.") and version["seed"] == 11


def test_not_http(faults):
    assert raw(faults, b"hello there\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert raw(faults, b"GET /nowhere HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 404 ")


def test_requests_in_a_row_on_one_connection(faults):
    one = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
    answers = raw(faults, one * 2 + one.replace(b"Host: x", b"Connection: close"))
    assert answers.count(b"HTTP/1.1 200 OK") == 3


def test_prints_its_port():
    process = subprocess.Popen([f"{BIN}/faultproxy"], stdout=subprocess.PIPE, text=True)
    try:
        control, seed = re.fullmatch(r"control=(\d+) seed=(\d+)\n", process.stdout.readline()).groups()
        with socket.create_connection(("127.0.0.1", int(control)), timeout=10) as s:
            s.sendall(b"GET /version HTTP/1.0\r\n\r\n")
            assert f'"seed":{seed}' in s.makefile().read()  # chosen, and told
        assert int(seed) < 1 << 53
    finally:
        process.terminate()
        assert process.wait(10) == 0
        process.stdout.close()


def test_bad_options():
    for words in (["--seed", "x"], ["--seed", "-1"], ["extra"], ["--listen", "nowhere"], ["--log", "/none/log"]):
        assert subprocess.run([f"{BIN}/faultproxy", *words], capture_output=True, timeout=10).returncode in (1, 2)
