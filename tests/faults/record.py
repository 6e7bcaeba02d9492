#!/usr/bin/python3
"""Makes the faults many times over, and notes what was made and what came of it in docs/reliability.md.

    tests/faults/record.py [--seed N] [--tier full|record] [--chaos RUNS] [-k EXPRESSION] [MODULE…]

    --seed N         of all that is random (random; it is noted)
    --tier TIER      how often each fault is made: the table in faults.py (record)
    --chaos RUNS     so many sales of scripts/run --chaos, too, with the seeds N, N + 1, …
    -k EXPRESSION    of these modules' tests only those that pytest chooses by it; it is noted
    MODULE…          links, stalls, … (all that have a test_MODULE.py here; with --chaos: none)
"""
import argparse
import collections
import datetime
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


def modules():
    return sorted(os.path.basename(p)[len("test_"):-3] for p in glob.glob(f"{HERE}/test_*.py"))


def note(seed, what, made, result):
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    commit = subprocess.run(["git", "-C", SOURCE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    row = f"| {datetime.date.today()} | {commit} | {seed} | {what} | {made} | {result} |"
    print(row, flush=True)
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(page.replace(END, f"{row}\n{END}"))


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
    note(seed, f"{module} ({tier}{f', -k {expression}' if expression else ''})", text,
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
    p.add_argument("--tier", choices=("full", "record"), default="record")
    p.add_argument("--chaos", type=int, default=0, metavar="RUNS")
    p.add_argument("-k", dest="expression", default="")
    p.add_argument("module", nargs="*", help=", ".join(modules()))
    args = p.parse_args()
    chosen = args.module or ([] if args.chaos else modules())
    if set(chosen) - set(modules()):
        p.error(f"modules are {', '.join(modules())}")
    results = [run_module(m, args.seed, args.tier, args.expression) for m in chosen]
    if args.chaos:
        results.append(run_chaos(args.seed, args.chaos))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
