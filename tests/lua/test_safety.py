"""For every script: a wrong type at any key changes nothing, all keys are in one slot, no key is built inside, and all
keys of an item end at the one absolute time."""
import os
import re

import pytest
import redis as redis_client
from sale import HOUR, LUA, NAMES, Buyer

SCRIPTS = sorted(name[:-4] for name in os.listdir(LUA) if name.endswith(".lua"))


def prepared(sale):
    """A live item with a buyer in each stage, so that every script has something to do."""
    sale.open(50)
    sale.b = Buyer(1)
    sale.other = Buyer(1)
    sale.reserve(sale.b, stream=False)
    sale.reserve(Buyer(2))
    sale.r.sadd("sec:items", sale.item)
    sale.slot("me", 1000, 60000)
    return sale


def calls(sale):
    """script → (keys, args) of a call that writes, where the script does."""
    b, now = sale.b, sale.now()
    new = Buyer(9)
    record = sale.record_key(b)
    one = dict(b=b, state="REJECTED", reason="ONE_USER_ONE_ORDER", back=True, other=sale.other)
    item = sale.keys("meta", "stock", "buyers", "pending")
    return {
        "claim": ([sale.key("meta"), record], [b.reservation]),
        "control": (sale.keys("meta"), [sale.item, "PAUSED"]),
        "held": (sale.keys("meta", "buyers", "pending") + [record], []),
        "inspect": (item, [sale.item]),
        "item": (item, []),
        "listed": (["sec:items"], [sale.item]),
        "lower": (sale.keys("meta", "stock", "buyers"), [sale.item, 50, 40]),
        "mark": ([sale.key("meta"), record], [b.reservation, "MQ_PENDING"]),
        "mend": (sale.keys("meta", "buyers", "pending") + [record], [sale.item, b.reservation]),
        "pending": (sale.keys("meta", "pending"), [now, 0, 10]),
        "progress": ([sale.key("meta"), record], [b.reservation]),
        "records": ([sale.key("meta"), record], []),
        "refuse": ([sale.key("meta"), record], [b.reservation]),
        "release": (sale.keys("meta", "stock", "buyers") + [record, sale.key("pending")],
                    [sale.item, b.user, b.request, b.reservation]),
        "remember": (sale.keys("meta", "commands"), [new.message, 10, "{}"]),
        "remembered": (sale.keys("meta", "commands"), ["0", 10, now, 10]),
        "republished": ([sale.key("meta"), record], [b.reservation, "5-1"]),
        "reserve": sale.reserve_call(new),
        "settle": sale.settle_call(one),
        "slot": (["sec:slot:{7}"], ["me", 2000, 60000]),
        "total": (sale.keys("meta", "stock"), [sale.item, 50, 60]),
        "warm": (sale.keys(*NAMES), [1, 5, now - HOUR, now + HOUR, now + HOUR, "g"]),
        "probe": (["sec:probe"], []),
    }


OURS = ["claim", "control", "held", "inspect", "item", "listed", "lower", "mark", "mend", "pending", "probe", "progress",
        "records", "refuse", "release", "remember", "remembered", "republished", "reserve", "settle", "slot", "total", "warm"]
# Those for which another type is no error: EXISTS takes any, SET replaces any, inspect looks for it (test_reconcile.py).
ANY_TYPE = {"warm", "probe", "inspect"}
ROW_BY_ROW = {"held", "progress", "records", "settle"}


def test_each_script_is_here(sale):
    ours = set(OURS)
    assert ours == set(calls(prepared(sale))) <= set(SCRIPTS)
    others = set()  # those have the contract suites of their ports
    for adapter in ("redis_stream", "redis_results"):
        with open(os.path.join(LUA, "..", "src", "adapter", adapter, "CMakeLists.txt"), encoding="utf-8") as f:
            others.update(re.findall(r"\w+", f.read()))
    assert {s for s in SCRIPTS if s not in ours and not s.startswith("rebuild_")} <= others, "a script without these tests"  # rebuild_: test_rebuild.py


@pytest.mark.parametrize("script", [s for s in OURS if s not in ANY_TYPE])
@pytest.mark.parametrize("wrong", ["string", "list", "hash", "set", "zset", "stream"])
def test_a_wrong_type_at_any_key_changes_nothing(sale, script, wrong):
    keys, args = calls(prepared(sale))[script]
    good = sale.everything()
    for key in keys:
        sale.r.flushall()
        for k, (expiry, dump) in good.items():
            sale.r.restore(k, expiry if expiry > 0 else 0, dump, absttl=expiry > 0)
        right = sale.r.type(key)
        if right == "none":
            right = {"reservation": "hash", "buyers": "hash", "pending": "zset", "commands": "hash"}[re.sub(r".*}:(\w+).*", r"\1", key)]
        if right == wrong:
            continue
        sale.r.delete(key)
        {"string": lambda: sale.r.set(key, "5"), "list": lambda: sale.r.rpush(key, "x"),
         "hash": lambda: sale.r.hset(key, "f", "v"), "set": lambda: sale.r.sadd(key, "x"),
         "zset": lambda: sale.r.zadd(key, {"x": 1}), "stream": lambda: sale.r.xadd(key, {"f": "v"})}[wrong]()
        before = sale.everything()
        if script in ROW_BY_ROW and ":reservation:" in key:
            # Of many records one is broken: it is told and left alone, the others are not harmed (test_settle.py). The
            # record of the order that exists instead decides nothing if it cannot be read.
            sale.r.evalsha(sale.shas[script], len(keys), *keys, *args)
            if key == keys[-1] and script == "settle":
                assert sale.r.type(key) == wrong
                continue
        else:
            with pytest.raises(redis_client.ResponseError, match="WRONGTYPE"):
                sale.r.evalsha(sale.shas[script], len(keys), *keys, *args)
        assert sale.everything() == before, (script, key, wrong)


@pytest.mark.parametrize("script", OURS)
def test_all_keys_in_one_slot(sale, script):
    """CLUSTER KEYSLOT needs a cluster: CRC16 of the hash tag, as Redis defines it."""
    keys, _ = calls(prepared(sale))[script]
    assert len({key_slot(k) for k in keys}) == 1


def key_slot(key):
    start = key.find("{")
    end = key.find("}", start + 1)
    if start >= 0 and end > start + 1:
        key = key[start + 1:end]
    crc = 0
    for byte in key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc % 16384


def test_key_slot_is_rediss():
    assert key_slot("123456789") == 0x31C3 % 16384  # the vector of the cluster specification
    assert key_slot("foo{bar}baz") == key_slot("bar")


@pytest.mark.parametrize("script", SCRIPTS)
def test_no_key_is_built_inside(script):
    """Every first argument of a call is an element of KEYS, or a variable that holds one."""
    with open(os.path.join(LUA, script + ".lua"), encoding="utf-8") as f:
        code = re.sub(r"--.*", "", f.read())
    code = re.sub(r"'(XGROUP|XINFO)', '\w+'", r"'\1'", code)  # their key comes third
    for command, first in re.findall(r"call\('(\w+)'(?:,\s*([^,()]+(?:\([^)]*\))?))?", code):
        if command in ("TIME", "PUBLISH"):
            continue
        assert re.fullmatch(r"KEYS\[[^\]]+\]|unpack\(KEYS\)|key|c\[1\]", first.strip()), (script, command, first)


def test_all_keys_end_at_the_one_time(sale):
    now = sale.now()
    expires = now + 2 * HOUR
    sale.open(50, expires=expires)
    a, b, c = Buyer(1), Buyer(2), Buyer(3)
    sale.reserve(a)
    sale.reserve(b, stream=False)
    sale.succeed(a)
    sale.cancel(b)
    sale.mark(b, "MQ_PENDING")
    sale.progress(a)
    sale.claim(a)

    def expiries():
        return {k: sale.r.execute_command("PEXPIRETIME", k) for k in sale.r.keys("*")}
    assert set(expiries().values()) == {expires}
    # buyers and pending vanish when they are empty, and come back with the right end.
    sale.cancel(a)
    assert sale.key("buyers") not in sale.r.keys("*") and sale.key("pending") not in sale.r.keys("*")
    sale.reserve(c)
    assert set(expiries().values()) == {expires} and sale.key("buyers") in sale.r.keys("*")
    # buyers empty while stock is not full (rule 4), and pending empty while buyers is not.
    sale.settle(dict(b=c, state="SOLD_OUT", reason="PG_STOCK_EXHAUSTED"))
    d, e = Buyer(4), Buyer(5)
    sale.reserve(d)
    sale.succeed(d)
    sale.reserve(e)
    assert set(expiries().values()) == {expires}


def test_everything_of_an_item_is_gone_after_its_end(sale):
    now = sale.now()
    sale.open(50, ends=now + 20, expires=now + 30)
    sale.reserve(Buyer(1))
    while sale.now() <= now + 31:
        pass
    assert sale.r.keys("*") == []
    assert sale.reserve(Buyer(1)).code == 4


@pytest.mark.parametrize("script", ["reserve", "settle", "mark", "warm"])
def test_out_of_memory_changes_nothing(sale, script):
    keys, args = calls(prepared(sale))[script]
    if script == "warm":
        sale.r.delete(*keys)
    before = sale.everything()
    sale.r.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis_client.ResponseError, match="OOM|command not allowed"):
            sale.r.evalsha(sale.shas[script], len(keys), *keys, *args)
    finally:
        sale.r.config_set("maxmemory", 0)
    assert sale.everything() == before
