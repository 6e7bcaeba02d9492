#!/usr/bin/env python3
"""What RocketMQ costs: our adapter, an official client and the whole hot sale on one broker, in one run. Started by
`scripts/bench rocketmq`, which builds and installs what it needs. Environment: ROUNDS (3), PARTS (rows hot), WAIT_QUIET
(seconds to wait before each measurement for a machine that does nothing else: 60), BROKER_OPTIONS (of scripts/rocketmq up).

The broker's JVM is warmed first: its first 40,000 messages cost it five times as much as later ones, and its compiler goes on
for long after them: a sale does not begin before that is over. Medians of the rounds; a
figure stands with what other programs used meanwhile, in cores. A line of JSON for each measurement: build/bench/rocketmq.jsonl.
"""
import glob
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = f"{ROOT}/build/bench"
BIN = os.environ.setdefault("SECKILL_BIN", f"{ROOT}/build/release/bin")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
PARTS = os.environ.get("PARTS", "rows hot").split()
WAIT_QUIET = int(os.environ.get("WAIT_QUIET", "60"))
TICKS = os.sysconf("SC_CLK_TCK")
OURS, OFFICIAL = "bench-ours", "bench-official"  # topics, and groups of the same names
WARM = ["publish:200:4", "consume:200", "publish:40000:64", "consume:40000", "both:20000:16", "both:40000:64"]
OFFICIAL_WARM = ["publish:200:4", "consume:200", "publish:8000:32", "consume:8000"]  # its own JIT
OURS_ROWS = ["publish:5000:1", "publish:20000:32", "publish:40000:256", "consume:65000", "both:20000:64"]
OFFICIAL_ROWS = ["publish:5000:1", "publish:20000:32", "consume:25000"]
STOCK = 10000
CALM = 0.15


def say(text):
    print(f"==> {text}", flush=True)


def busy_s():
    v = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / TICKS


def settle(broker):
    """Waits until the broker has compiled what it means to, and the machine does nothing but keep it."""
    for _ in range(60):
        before = cpu_of(broker.pid)[1]
        time.sleep(2)
        if (cpu_of(broker.pid)[1] - before) / 2 < 0.25:
            break
    for _ in range(WAIT_QUIET // 2):
        before = busy_s()
        time.sleep(2)
        if (busy_s() - before) / 2 < 0.3:
            return


class Broker:
    def __init__(self):
        self.dir = f"{WORK}/rocketmq"
        subprocess.run([f"{ROOT}/scripts/rocketmq", "down", "--dir", self.dir, "--grace", "2"], stderr=subprocess.DEVNULL, check=False)
        named = [w for n in (OURS, OFFICIAL) for w in ("--topic", n, "--group", n)]
        command = [f"{ROOT}/scripts/rocketmq", "up", "--foreground", "--wipe", "--dir", self.dir, "--grace", "2", *named,
                   *shlex.split(os.environ.get("BROKER_OPTIONS", ""))]
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        text=True)
        for line in self.process.stdout:
            if "all of it" in line:
                break
        else:
            sys.exit("RocketMQ did not start")
        told = dict(re.findall(r"^export SECKILL_ROCKETMQ_(\w+)=(.*)$", open(f"{self.dir}/env").read(), re.M))
        self.endpoints, self.namesrv, self.dead_group = told["ENDPOINTS"], told["NAMESRV"], told["DEAD_GROUP"]
        self.pid = int(open(f"{self.dir}/proxy.pid").read().split()[0])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            subprocess.run([f"{ROOT}/scripts/rocketmq", "down", "--dir", self.dir, "--grace", "2"], check=False)
            self.process.kill()


def measured(command, label, out, **env):
    """The lines of JSON it prints; kept with the label, unless there is none."""
    with subprocess.Popen(command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as child:
        try:
            told = child.communicate(timeout=900)[0]
        except BaseException:
            child.terminate()  # it may have servers to stop
            raise
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed: {told}")
    found = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    for one in found if label else []:
        one.update(label)
        out.write(json.dumps(one) + "\n")
        out.flush()
    return found


def ours(broker, rows, label, out):
    words = {"endpoints": broker.endpoints, "namesrv": broker.namesrv, "dead_group": broker.dead_group, "broker_pid": broker.pid,
             "topic": OURS, "group": OURS}
    return measured([f"{BIN}/rocketmq_bench", *(f"{k}={v}" for k, v in words.items()), *rows], label, out)


def official(broker, rows, body, label, out):
    words = {"endpoints": broker.endpoints, "broker_pid": broker.pid, "topic": OFFICIAL, "group": OFFICIAL, "body": body}
    found = measured(["node", f"{ROOT}/bench/official/client.js", *(f"{k}={v}" for k, v in words.items()), *OFFICIAL_WARM, *rows],
                     None, out, HOME=WORK, NODE_PATH=f"{WORK}/official/node_modules")[len(OFFICIAL_WARM):]
    for one in found:
        one.update(label)
        out.write(json.dumps(one) + "\n")
    return found


# --- the hot sale

def cpu_of(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
        name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
    words = rest.split()
    return name, (int(words[11]) + int(words[12])) / TICKS


class Watch(threading.Thread):
    """CPU seconds by program every 50 ms: whose they were between two moments."""

    PROGRAMS = ("seckill-api", "order-worker", "redis-server", "postgres", "peer-load")

    def __init__(self, broker):
        super().__init__(daemon=True)
        self.broker, self.pids, self.seen, self.over = broker, {}, [], threading.Event()

    def look(self):
        if not self.seen or len(self.seen) % 4 == 0:
            known = {int(p[6:]) for p in glob.glob("/proc/[0-9]*")}
            for pid in known - set(self.pids):
                try:
                    self.pids[pid] = cpu_of(pid)[0]
                except OSError:
                    pass
        now = {"machine": busy_s()}
        for pid, name in self.pids.items():
            name = "rocketmq" if pid == self.broker.pid else name
            if name not in (*self.PROGRAMS, "rocketmq"):
                continue
            try:
                now[name] = now.get(name, 0) + cpu_of(pid)[1]
            except OSError:
                pass
        self.seen.append((time.time(), now))

    def run(self):
        while not self.over.wait(0.05):
            self.look()

    def between(self, begin, end):
        first = max((s for s in self.seen if s[0] <= begin), default=self.seen[0])
        last = min((s for s in self.seen if s[0] >= end), default=self.seen[-1])
        return {name: last[1][name] - first[1].get(name, 0) for name in last[1]}


def hot(broker, label, out):
    """The peer's run.sh, with its generator; the queue comes by the environment."""
    settle(broker)
    watch = Watch(broker)
    watch.start()
    lines = measured(["bash", f"{WORK}/peer/run.sh", "hot"], None, out, ROUNDS="1", BIN=f"{WORK}/bin", OUT=f"{WORK}/hot.jsonl",
                     SUT=f"{ROOT}/bench/sut_seckill.sh", SECKILL_ROOT=ROOT, AOF=os.environ.get("AOF", "always"), WORKER_MODES="batch:256",
                     USERS=os.environ.get("USERS", "60000"), WAIT_QUIET=str(WAIT_QUIET), SECKILL_QUEUE_KIND="rocketmq",
                     SECKILL_ROCKETMQ_ENDPOINTS=broker.endpoints, SECKILL_ROCKETMQ_NAMESRV=broker.namesrv)
    watch.over.set()
    watch.join()
    load, commit = (next(x for x in lines if x.get("kind") == k) for k in ("load", "commit"))
    begin = load["first_accept_ns"] / 1e9
    seconds = commit["s_first_accept_to_99_9"]
    spent = watch.between(begin, begin + seconds)
    machine = spent.pop("machine")
    one = {"row": "hot", **label, "seconds": seconds, "ok": commit["ok"], "transactions": commit["transactions"],
           "first_commit_s": commit["s_first_accept_to_first_commit"], "accepting_s": (load["last_accept_ns"] - load["first_accept_ns"]) / 1e9,
           "answered": load["answered"], "status": load["status"], "p50_us": load["p50_us"], "p99_us": load["p99_us"],
           "cpu_us_per_order": {k: round(v * 1e6 / STOCK, 1) for k, v in spent.items()}, "others": (machine - sum(spent.values())) / seconds}
    out.write(json.dumps(one) + "\n")
    out.flush()
    return one


# --- the table

def median(found, name):
    calm = [x for x in found if x["others"] <= CALM] or found
    return statistics.median(x[name] for x in calm)


def table(found):
    def pick(who, row, at_once):
        return [x for x in found if x["row"] == row and x["who"] == who and (row == "consume" or x["at_once"] == at_once)]

    def cell(rows, name, form="{:.0f}"):
        return form.format(median(rows, name)) if rows and name in rows[0] else "–"
    print("| | seckill /s | p50 ms | p99 ms | seckill CPU µs | broker CPU µs | ratio | official /s | p50 ms | p99 ms | official CPU µs "
          "| broker CPU µs | our CPU to the official's | others, cores |\n|" + "---|" * 14)
    for row, at_once in (("publish", 1), ("publish", 32), ("publish", 256), ("consume", 0), ("both", 64)):
        a, b = pick("seckill", row, at_once), pick("official", row, at_once)
        if not a:
            continue
        name = {"publish": f"publish, {at_once} in flight", "consume": "consume and ack", "both": "published with 64 in flight, consumed meanwhile"}[row]
        words = [name, cell(a, "per_s", "{:,.0f}")]
        words += [cell([{**x, q: x[q] / 1000} for x in a], q, "{:.2f}") if row != "consume" else "–" for q in ("p50_us", "p99_us")]
        words += [cell(a, "cpu_us", "{:.1f}"), cell(a, "broker_cpu_us"), f"{median(a, 'cpu_us') / median(a, 'broker_cpu_us'):.3f}"]
        words += [cell(b, "per_s", "{:,.0f}")]
        words += [cell([{**x, q: x[q] / 1000} for x in b], q, "{:.2f}") if row == "publish" and b else "–" for q in ("p50_us", "p99_us")]
        words += [cell(b, "cpu_us"), cell(b, "broker_cpu_us"), f"{median(a, 'cpu_us') / median(b, 'cpu_us'):.3f}" if b else "–"]
        print("| " + " | ".join([*words, f"{median(a + b, 'others'):.2f}"]) + " |")
    sales = [x for x in found if x["row"] == "hot"]
    if sales:
        print(f"\nhot sale of {STOCK:,}: first accept to 99.9 % committed, s: " + ", ".join(f"{x['seconds']:.2f}" for x in sales) +
              f"; median {median(sales, 'seconds'):.2f}; audit {'ok' if all(x['ok'] for x in sales) else 'FAILED'}")
        names = sorted(sales[0]["cpu_us_per_order"])
        print("CPU µs per order meanwhile: " + ", ".join(
            f"{n} {statistics.median(x['cpu_us_per_order'].get(n, 0) for x in sales):.0f}" for n in names) +
              f"; others {median(sales, 'others'):.2f} cores")


def main():
    def interrupted(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: it stops what it started
        sys.exit(143)
    signal.signal(signal.SIGTERM, interrupted)
    found = []
    broker = Broker()
    try:
        with open(f"{WORK}/rocketmq.jsonl", "w", encoding="utf-8") as out:
            say("warming the broker")
            body = ours(broker, WARM, None, out)[0]["body"]
            if "hot" in PARTS:
                hot(broker, {"round": 0}, out)  # not counted: the first of three took the JVM three times the CPU of the last
            for number in range(1, ROUNDS + 1):
                say(f"round {number} of {ROUNDS}")
                label = {"round": number}
                if "rows" in PARTS:
                    settle(broker)
                    found += ours(broker, OURS_ROWS, label, out)
                    settle(broker)
                    found += official(broker, OFFICIAL_ROWS, body, label, out)
                if "hot" in PARTS:
                    found.append(hot(broker, label, out))
    finally:
        broker.stop()
    table(found)


if __name__ == "__main__":
    main()
