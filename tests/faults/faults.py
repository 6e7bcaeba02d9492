"""What the fault tests have in common: how often each fault is made, and the seed.

Three tiers (failures.md): "ci" each time, "full" with SECKILL_FULL (scripts/test --full), "record" with SECKILL_FAULTS=record
(record.py, which notes what was run in docs/reliability.md). What is chosen at random follows from SECKILL_SEED."""
import os

TIER = os.environ.get("SECKILL_FAULTS") or ("full" if os.environ.get("SECKILL_FULL") else "ci")
SEED = int(os.environ.get("SECKILL_SEED", "1"))

# fault: (ci, full, record)
_TIMES = {
    "crash points": (1, 5, 20),
    "terminated": (1, 5, 20),
}
TIMES = {fault: counts[("ci", "full", "record").index(TIER)] for fault, counts in _TIMES.items()}
