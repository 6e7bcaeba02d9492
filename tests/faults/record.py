#!/usr/bin/python3
"""Makes the faults many times over, and notes what was made and what came of it in docs/reliability.md.

    tests/faults/record.py [--seed N] [--seeds HOW_MANY] [--tier full|record] [--chaos RUNS] [-k EXPRESSION] [MODULE…]
    tests/faults/record.py --sums

A long record is made in parts, over as many sessions as it takes: a part is one module with one seed; what the page has already,
and held, is not made again. Each part is noted as soon as it ended, and what all parts made is added up there against what the
design asks for. Much of a part is waiting (leases, deadlines): two at a time, with seeds of their own, fill two cores.

    --seed N         the first seed of all that is random (random; it is noted)
    --seeds HOW_MANY seeds: N, N + 1, … (1), each for every module
    --sums           only add up what is noted
    --tier TIER      how often each fault is made: the table in faults.py (record)
    --chaos RUNS     so many sales of scripts/run --chaos, too, with the seeds N, N + 1, …
    -k EXPRESSION    of these modules' tests only those that pytest chooses by it; it is noted
    MODULE…          links, stalls, … (all that have a test_MODULE.py here; with --chaos: none)
"""
import argparse
import collections
import datetime
import fcntl
import glob
import os
import random
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PAGE = f"{SOURCE}/docs/reliability.md"
END = "<!-- end of records -->"
SUMS, SUMS_END = "<!-- sums: written by tests/faults/record.py -->", "<!-- end of sums -->"
# fault: what of the rows' "made" counts, how many the design asks for. At the named places: 200 at each.
ASKED = {
    "kill -9 at named crash points": (r"deaths at named places", 200 * 60),
    "backends terminated in our functions": (r"backends terminated", 200 * 18),
    "kill -9 of seckill-api at random": (r"× api", 2_000),
    "kill -9 of order-worker at random": (r"× worker", 2_000),
    "kill -9 of query-api at random": (r"× query", 2_000),
    "Redis kill -9 with AOF": (r"× redis", 500),
    "PostgreSQL stopped at once": (r"× (?:pg|PostgreSQL)", 300),
    "FLUSHALL, Redis empty or rolled back": (r"(?:FLUSHALL mid-sale|Redis restarted empty|Redis rolled back)", 100),
    "failover that loses Redis's last writes": (r"Redis failover with lost writes", 100),
    "promotion of an asynchronous standby": (r"promotion of an asynchronous standby", 100),
    "promotion of a synchronous standby": (r"promotion of a synchronous standby", 100),
    "reply lost after the script (hold)": (r"replies lost after hold", 100_000),
    "reply lost after COMMIT (order)": (r"replies lost after order", 100_000),
    "reply lost after settle": (r"replies lost after settle", 100_000),
    "ack lost": (r"replies lost after ack", 100_000),
    "redeliveries": (r"deliveries", 1_000_000),
    "bad links": (r"bad links", 1_600),
    "bad dependencies": (r"(?:dependencies bad )?for [\d.]+ s", 300),
    "sleeps beyond the lease": (r"sleeps beyond the lease", 1_000),
    "clock jumps": (r"clock jumps", 300),
    "descriptors exhausted": (r"shortages of descriptors", 50),
    "disk full under Redis": (r"full disks under Redis", 50),
    "disk full under PostgreSQL": (r"full disks under PostgreSQL", 50),
    "memory limits": (r"memory limits", 50),
    "restarts without a reset": (r"restarts without a reset", 3_000),
}


def modules():
    return sorted(os.path.basename(p)[len("test_"):-3] for p in glob.glob(f"{HERE}/test_*.py"))


def read_page():
    with open(PAGE, encoding="utf-8") as f:
        return f.read()


def rows(page):
    """(seed, what, made) of each part that held."""
    records = page[page.index("## Records"):page.index(END)]
    for line in records.splitlines():
        cells = [c.strip() for c in line.strip("|").split(" | ")]
        if len(cells) == 6 and "FAILED" not in cells[5] and re.match(r"\d{4}-", cells[0]):
            yield cells[2], cells[3], cells[4]


def sums(page):
    made = collections.Counter()
    for _, _, text in rows(page):
        for fault, (what, _) in ASKED.items():
            made[fault] += sum(int(n.replace(",", "")) for n in re.findall(rf"([\d,]*\d) {what}(?=,|$)", text))
    table = "".join(f"| {fault} | {made[fault]:,} | {asked:,} | {100 * made[fault] / asked:.0f} % |\n" for fault, (_, asked) in ASKED.items())
    return f"{SUMS}\n\n| fault | made | asked | |\n|---|---|---|---|\n{table}\n{SUMS_END}"


def write_page(page):
    before, after = page[:page.index(SUMS)], page[page.index(SUMS_END) + len(SUMS_END):]
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(before + sums(page) + after)


def note(seed, what, made, result):
    """Several may be at it, each with seeds of its own."""
    commit = subprocess.run(["git", "-C", SOURCE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    row = f"| {datetime.date.today()} | {commit} | {seed} | {what} | {made} | {result} |"
    print(row, flush=True)
    with open(PAGE, encoding="utf-8") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        write_page(read_page().replace(END, f"{row}\n{END}"))


def part(module, tier, expression):
    return f"{module} ({tier}{f', -k {expression}' if expression else ''})"


def run_module(module, seed, tier, expression):
    """What the tests print is what was made: lines "count what"."""
    env = {**os.environ, "SECKILL_SEED": str(seed), "SECKILL_FAULTS": tier}
    chosen = ["-k", expression] if expression else []
    began = time.monotonic()
    done = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", f"{HERE}/test_{module}.py", *chosen],
                          env=env, capture_output=True, text=True, check=False)
    made = collections.Counter()
    for count, what in re.findall(r"^\.*made (\d+) (.+)$", done.stdout, re.M):
        made[what] += int(count)
    if done.returncode:
        print(done.stdout[-6000:], file=sys.stderr)
    text = ", ".join(f"{n} {what}" for what, n in made.items()) or "see the module"
    note(seed, part(module, tier, expression), text,
         f"{'all hold' if done.returncode == 0 else 'FAILED'}, {time.monotonic() - began:.0f} s")
    return done.returncode == 0


def run_chaos(seed, runs):
    deaths, held = collections.Counter(), 0
    for n in range(runs):
        with tempfile.TemporaryDirectory(prefix="sk-", dir="/tmp") as directory:
            done = subprocess.run([f"{SOURCE}/scripts/run", "--once", "--chaos", "--seed", str(seed + n), "--dir", f"{directory}/run"],
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        victims = re.findall(r"chaos \d+: (?:kill -9 (\w+)|an immediate stop of (\w+))", done.stdout)
        deaths.update(a or b for a, b in victims)
        held += done.returncode == 0
        if done.returncode:
            print(done.stdout[-6000:], done.stderr[-2000:], file=sys.stderr)
    made = ", ".join(f"{n} × {who}" for who, n in sorted(deaths.items()))
    note(f"{seed}–{seed + runs - 1}" if runs > 1 else seed, "scripts/run --chaos", f"{runs} sales, {sum(deaths.values())} deaths: {made}",
         f"{held} of {runs} audits hold")
    return held == runs


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000))
    p.add_argument("--seeds", type=int, default=1, metavar="HOW_MANY")
    p.add_argument("--sums", action="store_true")
    p.add_argument("--tier", choices=("full", "record"), default="record")
    p.add_argument("--chaos", type=int, default=0, metavar="RUNS")
    p.add_argument("-k", dest="expression", default="")
    p.add_argument("module", nargs="*", help=", ".join(modules()))
    args = p.parse_args()
    chosen = args.module or ([] if args.chaos else modules())
    if set(chosen) - set(modules()):
        p.error(f"modules are {', '.join(modules())}")
    if args.sums:
        write_page(read_page())
        return 0
    results = []
    for seed in range(args.seed, args.seed + args.seeds):
        for m in chosen:
            done = {(s, what) for s, what, _ in rows(read_page())}
            if (str(seed), part(m, args.tier, args.expression)) not in done:
                results.append(run_module(m, seed, args.tier, args.expression))
    if args.chaos:
        results.append(run_chaos(args.seed, args.chaos))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
