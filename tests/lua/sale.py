"""One item in a real Redis, and the scripts of lua/ as functions. Each answer is taken apart as lua/README.md says."""
import os
import uuid

LUA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lua")
ITEM = "1001:2001"
NAMES = ("meta", "stock", "buyers", "pending", "events")
HOUR = 3_600_000
BODY = '{"message_id":"m","trace":{}'


class Answer:
    def __init__(self, text):
        code, epoch, seq, seconds, micros, self.rest = text.split(" ", 5)
        self.code, self.epoch, self.seq = int(code), int(epoch), int(seq)
        self.us = int(seconds) * 1_000_000 + int(micros)

    @property
    def words(self):
        return self.rest.split()

    @property
    def record(self):
        words = self.words
        return dict(zip(words[::2], words[1::2]))

    def __repr__(self):
        return f"<{self.code} {self.epoch} {self.seq} {self.rest!r}>"


class Buyer:
    """One request with its ids."""

    def __init__(self, user, request=None):
        self.user = str(user)
        self.request = request or str(uuid.uuid4())
        self.renew()

    def renew(self):
        """The same key, new ids: a client's later try."""
        self.reservation, self.message = str(uuid.uuid4()), str(uuid.uuid4())
        self.order = str(uuid.uuid4().int % 10**18 + 10**18)
        return self

    @property
    def packed(self):
        return f"{self.reservation} {self.order} {self.request}"

    @property
    def member(self):
        return f"{self.user}:{self.request}"


class Sale:
    def __init__(self, client, item=ITEM):
        self.r, self.item = client, item
        self.shas = {}
        for name in os.listdir(LUA):
            if name.endswith(".lua"):
                with open(os.path.join(LUA, name), encoding="utf-8") as f:
                    self.shas[name[:-4]] = client.script_load(f.read())

    def now(self):
        seconds, micros = self.r.time()
        return seconds * 1000 + micros // 1000

    def key(self, name):
        return f"sec:{{{self.item}}}:{name}"

    def keys(self, *names):
        return [self.key(n) for n in names]

    def record_key(self, b, request=None):
        return self.key(f"reservation:{b.user}:{request or b.request}")

    def run(self, script, keys, args):
        return Answer(self.r.evalsha(self.shas[script], len(keys), *keys, *args))

    # --- the scripts ---

    def warm(self, total, epoch=1, starts=None, ends=None, expires=None):
        now = self.now()
        self.expires = expires or now + 2 * HOUR
        return self.run("warm", self.keys(*NAMES),
                        [epoch, total, starts or now - HOUR, ends or now + HOUR, self.expires, "g"])

    def control(self, to):
        return self.run("control", self.keys("meta"), [self.item, to])

    def open(self, total, **times):
        assert self.warm(total, **times).code == 0
        assert self.control("OPEN").code == 0
        return self

    def reserve_call(self, b, deadline=0, stream=True, seen=(0, 0), witness=None):
        keys = self.keys("meta", "stock", "buyers") + [self.record_key(b), self.key("pending")]
        args = [b.user, b.request, b.reservation, b.order, b.message, deadline, *seen]
        if stream:
            keys.append(self.key("events"))
            args.append(BODY)
        if witness:
            keys.append(self.record_key(witness))
        return keys, args

    def reserve(self, b, **how):
        return self.run("reserve", *self.reserve_call(b, **how))

    def settle_call(self, *rows):
        """Rows: dict(b=, state=, reason=, rank=, back=, other=Buyer or None)."""
        keys, others, args = [], [], []
        for row in rows:
            b, o = row["b"], row.get("other")
            keys.append(self.record_key(b))
            verdict = row["state"]
            if verdict != "SUCCEEDED" or row.get("back") or o:
                verdict += f" {row.get('reason') or '-'} {row.get('rank', 3)} {int(row.get('back', False))}"
            if o:
                if o.request != b.request:
                    others.append(self.record_key(b, o.request))
                verdict += f" {o.reservation} {o.order} {o.request} "
                verdict += str(4 + len(rows) + len(others)) if o.request != b.request else "0"
            args += [b.reservation, verdict]
        return self.keys("meta", "stock", "buyers", "pending") + keys + others, [self.item, *args]

    def settle(self, *rows):
        return self.run("settle", *self.settle_call(*rows))

    def succeed(self, b):
        return self.settle(dict(b=b, state="SUCCEEDED"))

    def cancel(self, b):
        return self.settle(dict(b=b, state="CANCELLED", reason="CANCELLED", rank=4, back=True))

    def progress(self, *buyers):
        return self.run("progress", self.keys("meta") + [self.record_key(b) for b in buyers],
                        [b.reservation for b in buyers])

    def mark(self, b, to):
        return self.run("mark", [self.key("meta"), self.record_key(b)], [b.reservation, to])

    def refuse(self, b):
        return self.run("refuse", [self.key("meta"), self.record_key(b)], [b.reservation])

    def claim(self, b):
        return self.run("claim", [self.key("meta"), self.record_key(b)], [b.reservation])

    def republished(self, b, queue_id):
        return self.run("republished", [self.key("meta"), self.record_key(b)], [b.reservation, queue_id])

    def release(self, b):
        return self.run("release", self.keys("meta", "stock", "buyers") + [self.record_key(b), self.key("pending")],
                        [self.item, b.user, b.request, b.reservation])

    def records(self, *buyers):
        text = self.r.evalsha(self.shas["records"], 1 + len(buyers), self.key("meta"),
                              *[self.record_key(b) for b in buyers])
        head, *lines = text.split("\n")
        assert Answer(head).code == 0
        return [None if x == "!" else dict(zip(x.split()[::2], x.split()[1::2])) for x in lines]

    def pending(self, before, offset=0, most=128):
        return self.run("pending", self.keys("meta", "pending"), [before, offset, most])

    def item_state(self):
        return self.run("item", self.keys("meta", "stock", "buyers", "pending"), [])

    def slot(self, nonce, highest, ttl, number=7):
        return self.run("slot", [f"sec:slot:{{{number}}}"], [nonce, highest, ttl])

    def inspect(self):
        return self.run("inspect", self.keys("meta", "stock", "buyers", "pending"), [self.item])

    def held(self, *buyers):
        """A line per buyer: (pending, entry's words, record)."""
        text = self.r.evalsha(self.shas["held"], 3 + len(buyers), *self.keys("meta", "buyers", "pending"),
                              *[self.record_key(b) for b in buyers])
        head, *lines = text.split("\n")
        assert Answer(head).code == 0
        split = [x.split(" ", 4) for x in lines]
        return [(p, " ".join((a, b, c)), rest) for p, a, b, c, rest in split]

    def mend(self, b):
        return self.run("mend", self.keys("meta", "buyers", "pending") + [self.record_key(b)], [self.item, b.reservation])

    def lower(self, seen=5, to=5):
        return self.run("lower", self.keys("meta", "stock", "buyers"), [self.item, seen, to])

    def total(self, seen, to):
        return self.run("total", self.keys("meta", "stock"), [self.item, seen, to])

    # --- looking ---

    def record(self, b):
        return self.r.hgetall(self.record_key(b))

    def stock(self):
        return int(self.r.get(self.key("stock")))

    def buyers(self):
        return self.r.hgetall(self.key("buyers"))

    def waiting(self):
        return self.r.zrange(self.key("pending"), 0, -1)

    def seq(self):
        return int(self.r.hget(self.key("meta"), "seq"))

    def events(self):
        return [fields["b"] for _, fields in self.r.xrange(self.key("events"))]

    def everything(self):
        """The whole database, byte for byte, expiries included."""
        return {k: (self.r.pexpiretime(k) if hasattr(self.r, "pexpiretime") else self.r.execute_command("PEXPIRETIME", k),
                    self.raw_dump(k)) for k in sorted(self.r.keys("*"))}

    def raw_dump(self, k):
        return self.r.execute_command("DUMP", k, **{"NEVER_DECODE": True})
