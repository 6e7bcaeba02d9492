"""seckillctl, command by command, on real parts: what each does, and what it says when it is used wrongly."""
import json
import os
import pwd
import re
import select
import signal
import socket
import subprocess
import threading
import uuid

import jwt
import pytest

from ctl_system import BIN, KEY, System, wait_for


@pytest.fixture(scope="module")
def system():
    with System() as s:
        s.ctl("migrate")
        yield s


@pytest.fixture(scope="module")
def api(system):
    system.api.start()
    yield system.api
    system.api.down()


# ---------------------------------------------------------------- the command line

COMMANDS = ["migrate", "activity create", "activity list", "activity show", "activity open", "activity pause",
            "activity close", "stock warm", "stock show", "token", "storm", "audit", "queue show", "queue check", "dead-letters list",
            "dead-letters show", "dead-letters replay", "stock set-total", "reconcile run", "reconcile show", "rebuild plan", "rebuild run"]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_helps(system, command):
    out, err = system.ctl(*command.split(), "--help")
    assert f"seckillctl [--config FILE] {command}" in out and not err
    assert command in system.ctl("--help")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_refuses_what_it_does_not_know(system, command):
    for wrong in ("--nosuch", "nonsense --x"):
        out, err = system.ctl(*command.split(), *wrong.split(), rc=2)
        assert err.startswith("seckillctl: ") and not out


@pytest.mark.parametrize("words", ["", "bogus", "activity", "activity bogus", "stock", "dead-letters", "--redis.nosuch=1 migrate",
                                   "--config /nowhere migrate"])
def test_wrong_words(system, words):
    out, err = system.ctl(*words.split(), rc=2)
    assert err and not out


# ---------------------------------------------------------------- migrate

def test_migrate_again_changes_nothing(system):
    assert system.json("migrate") == {"applied": 0}


def test_migrate_waits_for_postgres():
    with System() as s:
        s.postgres.down()
        p = s.popen("migrate", "--json")
        s.postgres.start()
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
        assert json.loads(out)["applied"] > 0


def test_what_cannot_be_reached_is_said():
    with System() as s:
        s.ctl("migrate")
        item = s.item(1, 5)
        s.redis.down()
        _, err = s.ctl("stock", "show", *item, rc=1)
        assert "Redis" in err
        s.ctl("audit", *item, rc=3)
        s.ctl("queue", "show", rc=1)
        s.redis.start()
        s.postgres.down()
        _, err = s.ctl("activity", "list", rc=1)
        assert "PostgreSQL" in err
        s.ctl("audit", *item, rc=3)


# ---------------------------------------------------------------- items

def test_an_item_from_creation_to_its_end(system):
    item = ["--activity", 10, "--sku", 2001]
    times = ["--starts", "2026-01-01T00:00:00Z", "--ends", "2096-01-01T00:00:00.5Z"]
    made = system.json("activity", "create", *item, "--stock", 7, *times)
    assert (made["total"], made["sold"], made["warmed"], made["redis"]) == (7, 0, False, False)
    assert made["ends_at"] == "2096-01-01T00:00:00.500Z"
    assert made["expires_at"] == "2096-01-03T00:00:00.500Z"  # delivery and reconciliation window
    # The ledger begins with the total: its sum is what is free.
    assert system.sql("SELECT delta, kind FROM stock_ledger WHERE activity_id = 10") == [(7, "TOTAL")]

    # Again: nothing happens. Different: refused, and nothing happens.
    assert system.json("activity", "create", *item, "--stock", 7, *times) == made
    for other in (["--stock", 8, *times], ["--stock", 7, "--starts", "2026-01-01T00:00:01Z", *times[2:]]):
        _, err = system.ctl("activity", "create", *item, *other, rc=1)
        assert "different" in err
    assert system.json("activity", "show", *item) == made

    _, err = system.ctl("activity", "open", *item, rc=1)
    assert "not in Redis" in err
    _, err = system.ctl("stock", "show", *item, rc=1)
    assert "not in Redis" in err

    warmed = system.json("stock", "warm", *item)
    assert (warmed["outcome"], warmed["state"], warmed["free"], warmed["total"]) == ("is warmed", "PAUSED", 7, 7)
    again = system.json("stock", "warm", *item)
    assert "nothing was changed" in again["outcome"] and again["free"] == 7

    opened = system.json("activity", "open", *item)
    assert opened["redis_state"] == "OPEN" and opened["warmed"]
    assert system.json("activity", "open", *item)["redis_seq"] == opened["redis_seq"]
    assert system.json("activity", "pause", *item)["redis_state"] == "PAUSED"
    assert system.json("activity", "open", *item)["redis_state"] == "OPEN"
    shown = system.json("activity", "show", *item)
    assert (shown["redis_free"], shown["redis_buyers"], shown["redis_pending"]) == (7, 0, 0)
    assert shown["redis_ends_at"] == shown["ends_at"]
    assert [10] == [x["activity_id"] for x in system.json("activity", "list") if x["activity_id"] == 10]

    closed = system.json("activity", "close", *item)
    assert closed["redis_state"] == "CLOSED" and closed["closed_at"]
    assert system.json("activity", "close", *item)["closed_at"] == closed["closed_at"]
    for word in ("open", "pause"):
        _, err = system.ctl("activity", word, *item, rc=1)
        assert "final" in err


def test_text_is_for_people(system):
    item = ["--activity", 11, "--sku", 2001]
    out, _ = system.ctl("activity", "create", *item, "--stock", 7, "--starts", "-1s", "--ends", "+1h")
    assert out == "item 11:2001 is created\n"
    assert system.ctl("stock", "warm", *item)[0] == "item 11:2001 is warmed: 7 of 7 free\n"
    assert system.ctl("activity", "open", *item)[0] == "item 11:2001 is OPEN\n"
    assert re.search(r"^redis_free: +7$", system.ctl("activity", "show", *item)[0], re.M)
    assert re.search(r"^11 +2001 ", system.ctl("activity", "list")[0], re.M)


def warmed_at(system, activity):
    return system.sql("SELECT warmed_at FROM seckill_inventory WHERE activity_id = %s", activity)[0][0]


def create(system, activity, ends="+1h"):
    item = ["--activity", activity, "--sku", 2001]
    system.ctl("activity", "create", *item, "--stock", 7, "--starts", "-1h", "--ends", ends)
    return item


def forget(system, activity):
    r = system.redis.connect()
    for key in r.keys(f"sec:{{{activity}:2001}}:*"):
        r.delete(key)


def test_rule_33_a_lost_item_is_never_warmed_again(system):
    item = system.item(12, 5)
    forget(system, 12)
    _, err = system.ctl("stock", "warm", *item, rc=1)
    assert "rebuild" in err
    assert not system.redis.connect().keys("sec:{12:2001}:*")
    _, err = system.ctl("activity", "open", *item, rc=1)
    assert "rebuild" in err


def test_rule_33_postgres_learns_first(system):
    """Redis is found unusable before PostgreSQL notes the item as warmed."""
    item = create(system, 13)
    _, err = system.ctl("stock", "warm", *item, "--redis.url=unix:///nowhere", rc=1)
    assert "Redis" in err and warmed_at(system, 13) is None
    # Keys that are there already: nobody knows what they are, and nothing is changed.
    r = system.redis.connect()
    r.set("sec:{13:2001}:stock", 3)
    _, err = system.ctl("stock", "warm", *item, rc=1)
    assert "some keys" in err and "can be warmed again" in err
    assert r.get("sec:{13:2001}:stock") == b"3" and warmed_at(system, 13) is None
    r.delete("sec:{13:2001}:stock")
    system.ctl("stock", "warm", *item)


@pytest.mark.parametrize("activity, setting, value", [(50, "maxmemory", "1mb"), (51, "min-replicas-to-write", 1)])
def test_rule_33_a_certain_refusal_takes_the_note_back(system, activity, setting, value):
    item = create(system, activity)
    r = system.redis.connect()
    r.config_set(setting, value)
    try:
        _, err = system.ctl("stock", "warm", *item, rc=1)
        assert "nothing was done: it can be warmed again" in err and warmed_at(system, activity) is None
        # A note from another time is not this command's to take back.
        system.sql("UPDATE seckill_inventory SET warmed_at = now() WHERE activity_id = %s", activity)
        _, err = system.ctl("stock", "warm", *item, rc=1)
        assert "from another time" in err and warmed_at(system, activity) is not None
    finally:
        r.config_set(setting, 0)
    assert system.json("stock", "warm", *item)["free"] == 7


def test_rule_33_a_warming_that_died_is_gone_on_with(system):
    item = create(system, 52)
    system.sql("UPDATE seckill_inventory SET warmed_at = now() - interval '1 day' WHERE activity_id = 52")
    _, err = system.ctl("activity", "open", *item, rc=1)
    assert "stock warm goes on" in err
    assert system.json("activity", "show", *item)["opened_at"] is None
    before = warmed_at(system, 52)
    assert system.json("stock", "warm", *item)["outcome"] == "is warmed"
    assert warmed_at(system, 52) > before
    # And again as long as it was not opened: there was nothing to lose.
    forget(system, 52)
    assert system.json("stock", "warm", *item)["outcome"] == "is warmed"
    assert system.json("activity", "open", *item)["opened_at"]
    forget(system, 52)
    _, err = system.ctl("stock", "warm", *item, rc=1)
    assert "rebuild" in err


def test_rule_33_killed_anywhere(system):
    bad = []
    for i in range(20):
        item = create(system, 60 + i)
        p = system.popen("stock", "warm", *item)
        try:
            p.wait(0.01 + 0.005 * i)
        except subprocess.TimeoutExpired:
            p.kill()
        p.communicate()
        p = system.popen("stock", "warm", *item, "--json")
        out, err = p.communicate(timeout=60)
        if p.returncode or json.loads(out)["free"] != 7:
            bad.append((i, err))
    assert not bad


def test_rule_33_at_the_same_time(system):
    item = create(system, 53)
    several = [system.popen("stock", "warm", *item) for _ in range(8)]
    told = [p.communicate(timeout=60) + (p.returncode,) for p in several]
    assert all(rc == 0 and not err for _, err, rc in told), told
    assert system.json("stock", "show", *item)["seq"] == 0
    assert warmed_at(system, 53) is not None


class Cutting:
    """Stands before Redis; ends the connection instead of bringing the answer to what has `word` in it."""

    def __init__(self, system, word):
        self.to, self.word, self.cuts = system.redis.url.removeprefix("unix://"), word, 0
        self.path = f"{system.dir}/cut"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        redis = socket.socket(socket.AF_UNIX)
        redis.connect(self.to)
        with client, redis:
            while True:
                for sock in select.select([client, redis], [], [])[0]:
                    data = sock.recv(1 << 16)
                    if not data:
                        return
                    (redis if sock is client else client).sendall(data)
                    if sock is client and self.word in data:
                        redis.recv(1 << 16)
                        self.cuts += 1
                        return

    def close(self):
        self.listener.close()
        os.unlink(self.path)


@pytest.mark.parametrize("activity, word", [(54, b"SADD"), (55, b"seckill-order-create-v1")])
def test_rule_33_an_unknown_outcome_is_looked_up(system, activity, word):
    item = create(system, activity)
    cutting = Cutting(system, word)
    try:
        p = system.popen("stock", "warm", *item, f"--redis.url=unix://{cutting.path}")
        out, err = p.communicate(timeout=60)
    finally:
        cutting.close()
    assert cutting.cuts == 1
    if word == b"SADD":  # nothing is there, and it may still come
        assert p.returncode == 1 and "is not known" in err
        assert warmed_at(system, activity) is not None
        assert system.json("stock", "warm", *item)["outcome"] == "is warmed"
    else:
        assert p.returncode == 0 and "is warmed" in out, err
    assert system.json("stock", "show", *item)["free"] == 7


def test_what_has_ended_is_not_warmed(system):
    """Its keys would expire at once, and with them the item."""
    item = create(system, 56)
    system.sql("UPDATE activities SET ends_at = now() - interval '1 s', expires_at = now() - interval '100 ms' WHERE activity_id = 56")
    _, err = system.ctl("stock", "warm", *item, rc=1)
    assert "has ended" in err and warmed_at(system, 56) is None
    assert not system.redis.connect().sismember("sec:items", "56:2001")


@pytest.mark.parametrize("words", [
    "--stock 0 --starts -1s --ends +1h", "--stock 2000000001 --starts -1s --ends +1h", "--stock 1 --starts +1h --ends -1s",
    "--stock 1 --starts -2h --ends -1h", "--stock 1 --starts now --ends +1h", "--stock 1 --starts -1s", "--stock x --starts -1s --ends +1h",
    "--stock 1 --stock 1 --starts -1s --ends +1h", "--stock 1 --starts -1s --ends +1h stray"])
def test_create_refuses(system, words):
    system.ctl("activity", "create", "--activity", 14, "--sku", 1, *words.split(), rc=2)
    assert system.sql("SELECT count(*) FROM activities WHERE activity_id = 14") == [(0,)]


def test_an_unknown_item_is_said_to_be_unknown(system):
    for words in ("activity show", "activity open", "activity close", "stock warm"):
        _, err = system.ctl(*words.split(), "--activity", 99, "--sku", 1, rc=1)
        assert "there is no item 99:1" in err


# ---------------------------------------------------------------- tokens

def test_tokens(system):
    tokens = system.ctl("token", "--user", 41, "--count", 3, "--ttl", "1h")[0].split()
    claims = [jwt.decode(t, KEY, algorithms=["HS256"], audience="test", issuer="test") for t in tokens]
    assert [c["sub"] for c in claims] == ["41", "42", "43"]
    assert all(c["exp"] - c["iat"] == 3600 for c in claims)
    line = json.loads(system.ctl("token", "--user", 7, "--json")[0])
    assert line["user"] == 7 and jwt.decode(line["token"], KEY, algorithms=["HS256"], audience="test")["sub"] == "7"


def test_tokens_only_with_the_development_key(system):
    for keys in ("", f"prod=RS256:{system.dir}/key"):
        out, err = system.ctl("token", "--user", 7, f"--auth.keys={keys}", rc=1)
        assert "development key" in err and not out
        system.ctl("storm", "--activity", 1, "--sku", 1, "--buyers", 1, f"--auth.keys={keys}", rc=1)
    for words in (["--user", 0], ["--user", "x"], [], ["--user", 1, "--count", 0], ["--user", 1, "--ttl", 5]):
        system.ctl("token", *words, rc=2)


# ---------------------------------------------------------------- who did it

def test_each_row_says_who(system, api):
    """Also of those commands whose row is written with the change itself."""
    item = system.item(29, 10)
    for words in ("pause", "open", "close"):
        system.ctl("activity", words, *item)
    rows = system.sql("SELECT action, login FROM operator_actions WHERE activity_id = 29 ORDER BY action_id")
    assert [action for action, _ in rows] == ["activity create", "stock warm", "activity open", "activity pause", "activity open again",
                                              "activity close"]
    who = os.environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
    assert {login for _, login in rows} == {f"{who}@{socket.gethostname()}"}
    assert system.json("actions", "list")[0]["login"] == rows[-1][1]


# ---------------------------------------------------------------- what people do to standard streams

def shell(system, line):
    command = f"{BIN}/seckillctl --config {system.config}"
    return subprocess.run(["bash", "-c", line.replace("CTL", command)], capture_output=True, text=True, timeout=60)


def test_an_answer_that_nobody_can_read_is_none(system, api):
    """Done is not undone by it, and "holds" is not what nobody read: 3, with a word about it."""
    item = " ".join(map(str, system.item(24, 10)))
    for words in ("activity list", f"audit {item}", f"audit {item} --json", f"stock set-total {item} --total 11 --yes", "--help"):
        done = shell(system, f"CTL {words} >/dev/full")
        assert done.returncode == 3 and "could not be written" in done.stderr, (words, done)
    assert system.json("stock", "show", *item.split())["free"] == 11
    assert system.json("actions", "list")[0]["outcome"] == "DONE"


def test_a_reader_that_leaves_ends_no_command_in_its_middle(system, api):
    item = " ".join(map(str, system.item(25, 10)))
    done = shell(system, f"{{ sleep 0.3; CTL stock set-total {item} --total 12 --yes; echo $? >&2; }} | true")
    assert done.stderr.endswith("3\n"), done
    assert system.json("stock", "show", *item.split())["free"] == 12
    assert system.json("actions", "list")[0]["outcome"] == "DONE"


def test_closed_streams_are_no_sockets(system, api):
    """The next socket would get the number of standard output, and the answer written into it."""
    item = " ".join(map(str, system.item(26, 10)))
    for closed in ("<&- >&- 2>&-", ">&-", "2>&-", "<&-"):
        done = shell(system, f"exec 3>&1; CTL audit {item} {closed}; echo $? >&3")
        assert done.stdout.endswith("0\n"), (closed, done)


def test_a_file_without_lines_has_an_end(system, api):
    item = map(str, system.item(27, 10))
    for option in ("--history", "--metrics"):
        _, err = system.ctl("audit", *item, option, "/dev/zero", rc=3)
        assert "/dev/zero:1" in err
        item = map(str, ("--activity", 27, "--sku", 2001))


# ---------------------------------------------------------------- the storm

def test_a_storm_tells_what_happened(system, api):
    item = system.item(20, 10)
    path = f"{system.dir}/h20"
    told = system.json("storm", *item, "--buyers", 200, "--clicks", 2, "--api", system.url, "--history", path,
                       "--seed", 7, "--first-user", 500, "--connections", 16)
    ends = told["outcomes"]
    assert told["requests"] == told["finished"] == 400
    assert ends["ACCEPTED"] == 10 and sum(ends.values()) == 400
    assert ends["unknown"] == ends["unsent"] == ends["malformed"] == 0
    assert told["latency"]["count"] == told["answered"] >= 400
    assert told["first_accept_us"] <= told["last_accept_us"] <= told["last_answer_us"]
    assert told["first_sold_out_us"] is not None

    lines = [json.loads(line) for line in open(path)]
    invoked = [line for line in lines if line["type"] == "invoke"]
    assert len(invoked) == told["sent"] and len(lines) == 2 * told["sent"]
    assert {line["user"] for line in invoked} == set(range(500, 700))
    assert len({line["key"] for line in invoked}) == 400
    won = {(line["user"], line["key"]): line for line in lines if line["type"] == "ok"}
    assert len(won) == 10
    for (user, key), line in won.items():
        record = system.redis.connect(decode_responses=True).hgetall(f"sec:{{20:2001}}:reservation:{user}:{key}")
        assert (record["order_id"], record["reservation_id"]) == (line["order_id"], line["reservation_id"])
    # The same seed: the same buyers and keys, so all of it is known already.
    again = system.json("storm", *item, "--buyers", 200, "--clicks", 2, "--api", system.url, "--seed", 7,
                        "--first-user", 500)
    assert again["outcomes"]["ACCEPTED"] == 10


def test_one_key_clicked_often_is_one_unit(system, api):
    item = system.item(21, 10)
    told = system.json("storm", *item, "--buyers", 5, "--clicks", 20, "--same-key", "--api", system.url)
    assert told["outcomes"]["ACCEPTED"] == 100
    assert system.json("stock", "show", *item)["free"] == 5


def test_a_storm_that_is_ended_keeps_its_history(system, api):
    item = system.item(22, 10)
    path = f"{system.dir}/h22"
    p = system.popen("storm", *item, "--buyers", 1000000, "--rate", 500, "--api", system.url, "--history", path)
    wait_for("the storm to buy all", lambda: system.json("stock", "show", *item)["free"] == 0)
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 0 and "not finished" in out, err
    types = [json.loads(line)["type"] for line in open(path)]
    assert types.count("ok") == 10
    assert types.count("invoke") * 2 == len(types)


def test_a_storm_knows_when_it_was_none(system, api):
    item = system.item(23, 10, opened=False)
    _, err = system.ctl("storm", *item, "--buyers", 3, "--api", "http://127.0.0.1:1", rc=1)
    assert "nothing could be sent" in err
    # Another kind of server: its answers are not those of the contract.
    admin = f"http://127.0.0.1:{api.ports['admin']}"
    out, err = system.ctl("storm", *item, "--buyers", 3, "--api", admin, rc=0)
    assert "404 NOT_FOUND" in out
    for words in (["--buyers", 0], ["--buyers", 10000001], ["--buyers", 1, "--api", "https://x"],
                  ["--buyers", 1, "--api", "ftp://x:1"], ["--buyers", 1, "--connections", 0], []):
        system.ctl("storm", *item, *words, rc=2)
    system.ctl("storm", *item, "--buyers", 1, "--history", "/nowhere/x", rc=1)


# ---------------------------------------------------------------- queue and dead letters

def test_queue_check_of_the_stores_own(system):
    answer = system.json("queue", "check")
    assert answer["kind"] == "redis_stream" and answer["state"] == "usable" and answer["took_ms"] >= 0
    assert "queue.kind rocketmq" in system.ctl("queue", "check", "--topic", "x", rc=2)[1]
    err = system.ctl("queue", "check", "--redis.url=redis://127.0.0.1:1", rc=1)[1]
    assert "queue check: Redis" in err


@pytest.mark.parametrize("flags,complaint", [
    ("", "rocketmq.endpoints: required"), ("--rocketmq.endpoints=nowhere", "is not host:port"),
    ("--rocketmq.endpoints=a:1 --rocketmq.access_key=a", "go together"),
    ("--rocketmq.endpoints=a:1 --rocketmq.access_key=a --rocketmq.secret_key_file=/nowhere/secret", "/nowhere/secret: No such file")])
def test_rocketmq_settings_that_cannot_work(system, flags, complaint):
    err = system.ctl("--check-config", "--queue.kind=rocketmq", *flags.split(), rc=2)[1]
    assert err.startswith("seckillctl: rocketmq.") and complaint in err


def test_the_backlog_is_told_and_unknown_is_not_zero(system, api):
    item = system.item(30, 10)
    # Items that other tests lost are unknown; this one is not.
    out = system.popen("queue", "show", "--json").communicate(timeout=60)[0]
    rows = {x["activity_id"]: x for x in json.loads(out)}
    assert rows[30] == {"activity_id": 30, "sku_id": 2001, "waiting": 0, "in_hand": 0, "oldest_age_ms": 0}
    system.ctl("storm", *item, "--buyers", 4, "--api", system.url)
    row, = system.json("queue", "show", *item)
    assert (row["waiting"], row["in_hand"]) == (4, 0) and row["oldest_age_ms"] >= 0
    row, = system.json("queue", "show", "--activity", 98, "--sku", 1, rc=3)
    assert row["waiting"] is None and row["oldest_age_ms"] is None
    assert "unknown" in system.ctl("queue", "show", "--activity", 98, "--sku", 1, rc=3)[0]
    system.ctl("queue", "show", "--activity", 98, rc=2)


@pytest.fixture
def quarantined(system, api):
    """A reservation whose message is in quarantine: (dead letter id, event, activity)."""
    activity = quarantined.activity = getattr(quarantined, "activity", 40) + 1
    item = system.item(activity, 10)
    system.ctl("storm", *item, "--buyers", 1, "--api", system.url)
    r = system.redis.connect()
    (entry, fields), = r.xrange(f"sec:{{{activity}:2001}}:events")
    e = json.loads(fields[b"b"])
    stored = system.sql("SELECT seckill_quarantine(%s, 2001, %s, %s, %s, %s, %s, %s, %s, 'a test', 9)", activity,
                        e["message_id"], e["request_id"], e["reservation_id"], int(e["user_id"]), int(e["order_id"]),
                        entry.decode(), fields[b"b"])
    assert stored == [(True,)]
    (number,), = system.sql("SELECT max(dead_letter_id) FROM dead_letters")
    return number, e, activity


def test_dead_letters_are_listed_and_shown(system, quarantined):
    number, e, activity = quarantined
    first = system.json("dead-letters", "list", "--limit", 1)[0]
    assert (first["id"], first["state"], first["message_id"]) == (number, "waiting", e["message_id"])
    assert (first["item"], first["reason"], first["deliveries"]) == (f"{activity}:2001", "a test", 9)
    shown = system.json("dead-letters", "show", number)
    assert json.loads(shown["body"]) == e
    assert shown["request_id"] == e["request_id"]
    assert all(x["id"] < number for x in system.json("dead-letters", "list", "--before", number))
    assert e["message_id"] in system.ctl("dead-letters", "list")[0]
    _, err = system.ctl("dead-letters", "show", 987654321, rc=1)
    assert "there is no dead letter" in err
    for words in ([], ["x"], ["0"], ["1", "2"]):
        system.ctl("dead-letters", "show", *words, rc=2)
        system.ctl("dead-letters", "replay", *words, rc=2)


def test_rule_25_a_replay_is_a_new_life(system, quarantined):
    number, e, activity = quarantined
    system.sql("SELECT * FROM seckill_count_attempts(ARRAY[%s]::uuid[], 'test')", e["message_id"])
    assert system.json("dead-letters", "replay", number)["message_id"] == e["message_id"]
    assert system.sql("SELECT count(*) FROM consumer_inbox WHERE message_id = %s", e["message_id"]) == [(0,)]
    assert system.sql("SELECT generation, attempts FROM consumer_attempt_log WHERE message_id = %s",
                      e["message_id"]) == [(2, 0)]
    r = system.redis.connect(decode_responses=True)
    entries = r.xrange(f"sec:{{{activity}:2001}}:events")
    assert len(entries) == 2
    again = json.loads(entries[1][1]["b"])
    assert again["retry_count"] == e["retry_count"] + 1
    assert {k: v for k, v in again.items() if k != "retry_count"} == {k: v for k, v in e.items() if k != "retry_count"}
    record = r.hgetall(f"sec:{{{activity}:2001}}:reservation:{e['user_id']}:{e['request_id']}")
    assert record["queue_id"] == entries[1][0]  # rule 28 looks at the newest
    _, err = system.ctl("dead-letters", "replay", number, rc=1)
    assert "replayed before" in err
    assert len(r.xrange(f"sec:{{{activity}:2001}}:events")) == 2


def test_rule_25_what_is_settled_is_not_replayed(system, quarantined):
    number, e, activity = quarantined
    system.sql("SELECT * FROM seckill_void(%s, 2001, %s, %s, %s, %s, %s, 'GIVEN_UP')", activity, e["message_id"],
               e["request_id"], e["reservation_id"], int(e["user_id"]), int(e["order_id"]))
    _, err = system.ctl("dead-letters", "replay", number, rc=1)
    assert "voided before" in err
    assert system.redis.connect().xlen(f"sec:{{{activity}:2001}}:events") == 1


def test_rule_24_an_undecodable_one_cannot_be_replayed(system):
    system.sql("SELECT seckill_quarantine(0, 0, NULL, NULL, NULL, NULL, NULL, %s, %s, 'no JSON', 1)",
               str(uuid.uuid4()), b"\xff{nonsense")
    row = system.json("dead-letters", "list", "--limit", 1)[0]
    assert row["message_id"] is None
    _, err = system.ctl("dead-letters", "replay", row["id"], rc=1)
    assert "undecodable" in err
    assert "nonsense" in system.json("dead-letters", "show", row["id"])["body"]
