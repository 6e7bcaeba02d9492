#!/usr/bin/python3
"""Runs a command on a machine that is slow and stalls: with a part of one processor, and everything that the command
started stopped at once, again and again, at random. A test that fails only here depends on time. As root; control
groups of either version; the exit status is the command's.

    tests/support/slow.py --cpu 90 --stall 800 -- ctest --test-dir build/dev -j8 -L unit
"""
import argparse
import os
import random
import subprocess
import sys
import time

ROOT = "/sys/fs/cgroup"


class Group:
    """The control group of one run. In version 1 each controller has a tree of its own."""

    def __init__(self, cpu_percent):
        self.unified = os.path.exists(f"{ROOT}/cgroup.controllers")
        trees = [ROOT] if self.unified else [f"{ROOT}/cpu", f"{ROOT}/freezer"]
        self.paths = [f"{tree}/seckill-slow-{os.getpid()}" for tree in trees]
        for path in self.paths:
            os.mkdir(path)
        quota = cpu_percent * 1000
        if self.unified:
            self.write("cpu.max", f"{quota} 100000")
        else:
            self.write("cpu.cfs_period_us", "100000")
            self.write("cpu.cfs_quota_us", str(quota))

    def write(self, name, text, path=None):
        with open(f"{path or self.paths[0]}/{name}", "w") as f:
            f.write(text)

    def enter(self):
        for path in self.paths:
            self.write("cgroup.procs", str(os.getpid()), path)

    def stand_still(self, seconds):
        name, on, off = ("cgroup.freeze", "1", "0") if self.unified else ("freezer.state", "FROZEN", "THAWED")
        self.write(name, on, self.paths[-1])
        try:
            time.sleep(seconds)
        finally:
            self.write(name, off, self.paths[-1])

    def leave(self):
        """What the command left running goes on outside. Returns how many those are."""
        left = set()
        for path in self.paths:
            with open(f"{path}/cgroup.procs") as f:
                pids = f.read().split()
            for pid in pids:
                left.add(pid)
                try:
                    self.write("cgroup.procs", pid, os.path.dirname(path))
                except ProcessLookupError:
                    pass
            time.sleep(0.1)
            os.rmdir(path)
        return len(left)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cpu", type=int, default=90, metavar="PERCENT", help="of one processor (default: 90)")
    parser.add_argument("--stall", type=int, default=800, metavar="MS", help="the longest stall (default: 800; 0: none)")
    parser.add_argument("--seed", type=int, default=None, help="of the stalls (default: another one each time)")
    parser.add_argument("command", nargs="+", help="after --")
    args = parser.parse_args()
    if args.cpu < 1 or args.stall < 0:
        parser.error("--cpu is at least 1, --stall at least 0")
    seed = random.randrange(1 << 32) if args.seed is None else args.seed
    rng = random.Random(seed)
    try:
        group = Group(args.cpu)
    except OSError as e:
        sys.exit(f"slow.py: no control group can be made: {e}; it takes root")
    print(f"slow.py: {args.cpu} % of a processor, stalls of up to {args.stall} ms, seed {seed}", flush=True)
    try:
        with subprocess.Popen(args.command, preexec_fn=group.enter) as p:
            while p.poll() is None:
                time.sleep(rng.uniform(0.2, 2.5))
                if args.stall:
                    group.stand_still(rng.uniform(0, args.stall) / 1000)
    finally:
        left = group.leave()
    if left:
        print(f"slow.py: {left} processes were left running", flush=True)
    sys.exit(p.returncode if p.returncode >= 0 else 128 - p.returncode)


if __name__ == "__main__":
    main()
