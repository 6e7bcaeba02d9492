"""Which test holds which rule (the numbers of the design's rules): from what the tests say themselves, "rule 13" in a name, a
comment or a message.

    rules.py            writes tests/RULES.md
    rules.py --check    fails when a rule has no test, or RULES.md names one that is no more
"""
import os
import re
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RULES = {
    1: "moves of a reservation; mark and claim never touch the settled",
    2: "settle acts at the item's epoch only, else LATER",
    3: "the higher rank wins, at equal rank the first",
    4: "a release raises stock by one, except after PG_STOCK_EXHAUSTED",
    5: "`buyers` is removed only if it is this reservation's",
    6: "PROCESSING raises rank 1 to 2 on a record that exists",
    7: "what changes `buyers` or raises stock does seq + 1, and publishes",
    8: "strict release leaves no trace",
    9: "settled_at and published_at; the ack depends on the commit alone",
    10: "the hint is installed for the newest (epoch, seq) only",
    11: "one load per process, at most one a second and item; off while unsubscribed or too large",
    12: "with the hint on, a replay of a released key may hear SOLD_OUT",
    13: "the own second try's replay is a confirmed hold",
    14: "one unknown makes the whole unknown",
    15: "Redis time, and too late by it",
    16: "the inbox's key is the logical consumer's, whatever the transport",
    17: "one item per call, one lock order",
    18: "orders, then the inventory row, the surplus taken back",
    19: "the order in which conflicts are named",
    20: "own failures are told from infrastructure",
    21: "the breaker's probe is an empty call",
    22: "RocketMQ's deliveries",
    23: "suspects: with fewer and fewer neighbours, at last alone",
    24: "the undecodable are stored raw, then acknowledged",
    25: "void and replay of the quarantined",
    26: "the backlog's age",
    27: "commands: ids, parking, payment before cancel",
    28: "recovery leaves alone what its stream has not passed",
    29: "publishing again is rate-limited, after a full receive round",
    30: "void only after max_hold and when the queue has passed it",
    31: "unknown age is no age",
    32: "the retry budget",
    33: "a warmed item is never warmed again",
    34: "a store that lost something is noticed, and reported",
    35: "a rebuild is taken by compare-and-set, each step carries its epoch",
    36: "what a rebuild counts and restores",
    37: "LOST_RESERVATION is said max_hold after the epoch moved",
    38: "an instance number's lease",
    40: "reconciliation compares by reservation and only lowers free stock",
}
# Parts that are not built yet. Each becomes an error here when it gets a test.
NOT_YET = {}

NUMBERS = r"\d+(?:\s*(?:,|and|or|–|-|to|\*|\n|//|#)*\s*\d+)*"
CITATION = re.compile(rf"(?<![a-z])rules?[\s_*#]+({NUMBERS})", re.IGNORECASE)
PY_FUNCTION = re.compile(r"^(?:    )?def (\w+)", re.MULTILINE)
C_FUNCTION = re.compile(r"^(?:static )?(?:void|int|bool|struct \w+ \*?)\s*(\w+)\([^;{]*\)\s*\n?\{", re.MULTILINE)


def numbers(text):
    """"1, 3–5 and 9" → 1 3 4 5 9"""
    text = re.sub(r"[\s*#/]+", " ", text)
    for first, last in re.findall(r"(\d+)(?: ?(?:–|-|to) ?(\d+))?", text):
        yield from range(int(first), int(last or first) + 1)


def place(path, text, at, functions):
    """The test that the citation belongs to: around it, or behind its comment; None: the file's head."""
    line = text[text.rfind("\n", 0, at) + 1:]
    at = max(at, len(text) - len(line)) if path.endswith(".py") and "def " not in line.split("\n", 1)[0] else at + 1
    before = [m for m in functions if m.start() <= at or m.start() <= at < m.end()]
    behind = next((m for m in functions if m.start() > at), None)
    if path.endswith(".py"):
        if line.startswith("#"):
            return behind[1] if behind else None
        return before[-1][1] if before else None
    inside = before and "\n}" not in text[before[-1].start():at]
    if inside:
        return before[-1][1]
    if behind and "\n\n" not in text[at:behind.start()]:
        return behind[1]
    return None


def scan():
    """{rule: {path: set of tests}}"""
    found = {}
    for directory, _, files in os.walk(TESTS):
        if os.path.basename(directory) in ("support", "mutants"):
            continue
        for name in sorted(files):
            if not name.endswith((".py", ".c", ".h")):
                continue
            path = os.path.join(directory, name)
            with open(path, encoding="utf-8") as f:
                text = f.read()
            functions = list((PY_FUNCTION if name.endswith(".py") else C_FUNCTION).finditer(text))
            for m in CITATION.finditer(text):
                test = place(path, text, m.start(), functions)
                for rule in numbers(m[1]):
                    tests = found.setdefault(rule, {}).setdefault(os.path.relpath(path, TESTS), set())
                    if test and test != "main":
                        tests.add(test)
    return found


def page(found):
    lines = ["# Rules and their tests", "",
             "Written by tests/support/rules.py from what the tests say. A file without names holds the rule as a whole.", "",
             "| rule | says | tests |", "|---|---|---|"]
    for rule, says in RULES.items():
        tests = [f"{path}" + (": " + ", ".join(f"`{t}`" for t in sorted(names)) if names else "")
                 for path, names in sorted(found.get(rule, {}).items())]
        lines.append(f"| {rule} | {says} | {'<br>'.join(tests) or 'not yet: ' + NOT_YET.get(rule, '?')} |")
    return "\n".join(lines) + "\n"


def main():
    found = scan()
    target = os.path.join(TESTS, "RULES.md")
    wrong = [f"rule {r} has no test: {RULES[r]}" for r in RULES if r not in found and r not in NOT_YET]
    wrong += [f"rule {r} has a test now: take it out of NOT_YET" for r in NOT_YET if r in found]
    if sys.argv[1:] != ["--check"]:
        with open(target, "w", encoding="utf-8") as f:
            f.write(page(found))
    else:
        with open(target, encoding="utf-8") as f:
            listed = f.read()
        known = {name for paths in found.values() for names in paths.values() for name in names}
        wrong += [f"RULES.md names {name}, which is no more (run {os.path.relpath(__file__)})"
                  for name in sorted(set(re.findall(r"`(\w+)`", listed.split("|---|", 1)[1]))) if name not in known
                  and name != "buyers"]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
