"""drop_reply before a real Redis: the command is executed, and its reply alone is missing."""
import hashlib
import socket

import pytest
import redis
from faultproxy import FaultProxy, script
from services import wait_for

PING = b"*1\r\n$4\r\nPING\r\n"


@pytest.fixture
def server(redis_server):
    with redis_server.connect() as c:
        c.flushall()
    return redis_server


@pytest.fixture
def direct(server):
    with server.connect(decode_responses=True) as c:
        yield c


@pytest.fixture
def proxy(before, server):
    return before(f"unix:{server.socket}")


def dial(proxy):
    return socket.create_connection((proxy.front.host, proxy.front.port), timeout=10)


def client(proxy, **options):
    return redis.Redis(proxy.front.host, proxy.front.port, decode_responses=True, retry_on_error=[], **options)


def command(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def read_exactly(s, n):
    got = b""
    while len(got) < n:
        part = s.recv(n - len(got))
        assert part, got
        got += part
    return got


def read_all(s):
    got = b""
    while part := s.recv(65536):
        got += part
    return got


@pytest.mark.parametrize("then,error", [("close", redis.ConnectionError), ("reset", redis.ConnectionError),
                                        ("swallow", redis.TimeoutError)])
def test_executed_but_unheard(proxy, direct, then, error):
    drop = proxy.drop_reply("resp", "INCR", then=then)
    with client(proxy, socket_timeout=0.4) as c:
        c.set("n", 5)
        with pytest.raises(error):
            c.execute_command("INCR", "n")
        drop.wait_for(dropped=1)
        assert direct.get("n") == "6"
        assert c.incr("n") == 7  # on another connection
    assert drop.stats["matched"] == drop.stats["chosen"] == 1


def test_earlier_replies_of_the_pipeline_arrive(proxy, direct):
    drop = proxy.drop_reply("resp", "INCR", nth=3, then="close")
    with dial(proxy) as s:
        s.sendall(command("INCR", "a") + PING + command("INCR", "a") + command("GET", "a") + command("INCR", "a") +
                  command("INCR", "b") + PING)
        assert read_all(s) == b":1\r\n+PONG\r\n:2\r\n$1\r\n2\r\n"
    assert direct.get("a") == "3"
    assert drop.stats["dropped"] == 1


def test_swallows_the_rest_of_the_connection(proxy, direct):
    """Replies have no numbers: one that is missing would be taken for the next one's."""
    drop = proxy.drop_reply("resp", "INCR a")
    with dial(proxy) as s:
        s.sendall(command("INCR", "b") + command("INCR", "a") + command("INCR", "b"))
        assert read_exactly(s, 4) == b":1\r\n"
        s.sendall(command("INCR", "b"))
        wait_for("the last command", lambda: direct.get("b") == "3")
        drop.wait_for(dropped=1, collateral=2, swallowed=12)
        s.settimeout(0.1)
        with pytest.raises(TimeoutError):
            s.recv(1)


@pytest.mark.parametrize("match,matched", [
    ("SET", 1), ("set", 1), ("SET key:1", 1), ("SET key:", 1), ("SET key:1 v", 1), ("SET key:2", 0), ("GET", 0), ("SE", 0),
    ("key:1", 0), ("", 1), ("SET key:1 value EX extra", 0)])
def test_matching(proxy, direct, match, matched):
    drop = proxy.drop_reply("resp", match, percent=0)
    with dial(proxy) as s:
        s.sendall(command("SET", "key:1", "value"))
        assert read_exactly(s, 5) == b"+OK\r\n"
    assert drop.stats["matched"] == matched and drop.stats["dropped"] == 0


def test_scripts(proxy, direct):
    body = "return redis.call('INCR', KEYS[1])"
    sha = hashlib.sha1(body.encode()).hexdigest()
    drop = proxy.drop_reply("resp", sha[:12], count=0, then="close")
    for call in (command("EVAL", body, 1, "k"), command("EVALSHA", sha, 1, "k"), command("evalsha_ro", sha, 1, "k")):
        with dial(proxy) as s:
            s.sendall(command("SCRIPT", "LOAD", body) + call)
            assert read_all(s) == b"$40\r\n%s\r\n" % sha.encode()
    assert direct.get("k") == "2"  # the read-only call failed; its reply was dropped too
    assert drop.stats["dropped"] == 3
    assert len(script("reserve")) == 40


@pytest.mark.parametrize("hello", [b"2", b"3"])
def test_any_reply_is_counted(proxy, direct, hello):
    """Whatever shape replies have, the one that is dropped is the right one."""
    direct.xadd("s", {"a": 1})
    direct.xgroup_create("s", "g", 0)
    talk = [command("HELLO", hello), command("COMMAND", "DOCS", "get", "set"), command("CONFIG", "GET", "max*"),
            command("XINFO", "STREAM", "s", "FULL"), command("NOSUCH"), command("MGET", "x", "y"), command("KEYS", "none*"),
            command("GET", "x"), command("SET", "big", bytes(200000)), command("GET", "big"), command("SET", "e", ""),
            command("GET", "e"), command("BLPOP", "l", "0.01"), command("MULTI"), command("GET", "e"), command("EXEC"),
            command("DEBUG", "PROTOCOL", "DOUBLE"), command("DEBUG", "PROTOCOL", "MAP"), command("DEBUG", "PROTOCOL", "SET"),
            command("DEBUG", "PROTOCOL", "BIGNUM"), command("DEBUG", "PROTOCOL", "NULL"), command("DEBUG", "PROTOCOL", "TRUE"),
            command("DEBUG", "PROTOCOL", "VERBATIM"), command("DEBUG", "PROTOCOL", "ATTRIB"), b"PING inline\r\n",
            command("EVAL", "return {1,{2,{3,{}}},'x'}", 0), command("GEOPOS", "none", "a")]
    if hello == b"3":
        talk.insert(1, command("CLIENT", "TRACKING", "ON", "BCAST"))  # pushes come between the replies
    drop = proxy.drop_reply("resp", "ECHO", then="close")
    with dial(proxy) as s, socket.socket(socket.AF_UNIX) as plain:
        s.sendall(b"".join(talk) + command("ECHO", "lost") + PING)
        got = read_all(s)
        assert drop.stats["dropped"] == 1
        drop.remove()
        plain.connect(direct.connection_pool.connection_kwargs["path"])
        plain.settimeout(10)
        plain.sendall(b"".join(talk) + command("QUIT"))
        wanted = read_all(plain).removesuffix(b"+OK\r\n")
    assert b"lost" not in got and not got.endswith(b"+PONG\r\n")
    assert len(got) > 200000 and abs(len(got) - len(wanted)) < 2000  # but for ids and times
    assert proxy.faults.decisions("protocol_lost") == []


def test_subscriber_is_left_alone(proxy, direct):
    drop = proxy.drop_reply("resp", "", nth=2)
    with dial(proxy) as s:
        s.sendall(PING + command("SUBSCRIBE", "c"))
        assert read_exactly(s, 7) == b"+PONG\r\n"
        assert b"subscribe" in s.recv(100)
        wait_for("the subscriber", lambda: direct.publish("c", "hello"))
        got = b""
        while b"hello" not in got:
            got += s.recv(100)
    assert drop.stats["matched"] == 1
    assert {d["why"] for d in proxy.faults.decisions("protocol_lost")} == {"SUBSCRIBE"}


def test_toxic_of_a_connection_that_is_there(proxy, direct):
    """Whenever it is added: the connection was followed from its beginning."""
    with dial(proxy) as s:
        s.sendall(command("INCR", "n"))
        assert read_exactly(s, 4) == b":1\r\n"
        with proxy.drop_reply("resp", "INCR", then="close") as drop:
            s.sendall(command("INCR", "n"))
            assert read_all(s) == b""
            assert drop.stats["dropped"] == 1
    assert direct.get("n") == "2"


def test_removed_while_a_reply_is_due(proxy, direct):
    """What was decided is done, though the toxic is gone."""
    drop = proxy.drop_reply("resp", "BLPOP", then="close")
    with dial(proxy) as s:
        s.sendall(command("BLPOP", "l", "0"))
        drop.wait_for(chosen=1)
        drop.remove()
        direct.rpush("l", "x")
        assert read_all(s) == b""
    assert proxy.faults.decisions("dropped")


def test_seed_decides(server):
    """Of many calls about a third is dropped: the same ones with the same seed, whatever the timing."""
    def run(seed):
        with FaultProxy(seed=seed) as faults:
            proxy = faults.add("p", f"unix:{server.socket}")
            drop = proxy.drop_reply("resp", "INCR", count=0, percent=30, then="close")
            heard = []
            with server.connect() as direct:
                direct.delete("n")
                for _ in range(60):
                    with socket.create_connection((proxy.host, proxy.port), timeout=10) as s:
                        s.sendall(command("INCR", "n") + command("QUIT"))
                        heard.append(bool(read_all(s)))
                assert int(direct.get("n")) == 60  # each was executed
            assert drop.stats["dropped"] == heard.count(False)
            return heard

    first = run(3)
    assert 6 <= first.count(False) <= 32
    assert run(3) == first and run(4) != first
