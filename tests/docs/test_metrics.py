"""docs/metrics.md lists every metric of the three programs, with type and labels, and nothing else."""
import os
import re
import sys

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, f"{SOURCE}/tests/support")
import client  # noqa: E402
from system import System  # noqa: E402

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
# Sections of what is not to be seen with the default queue; tests/unit/h2grpc and tests/unit/rocketmq look for their rows.
ROCKETMQ_ONLY = ("gRPC", "RocketMQ")
FROM = {"all": {"api", "worker", "query"}}


def documented():
    """{name: (type, labels, programs)}, and the names of those that only RocketMQ has"""
    rows, rocketmq_only, section = {}, set(), ""
    for line in open(f"{SOURCE}/docs/metrics.md", encoding="utf-8"):
        if line.startswith("## "):
            section = line[3:]
        match = re.match(r"\| `(\w+)` \| (\w+) \|([^|]*)\| ([^|]+) \|", line)
        if match:
            assert match[1] not in rows, f"{match[1]} is there twice"
            rows[match[1]] = (match[2], set(re.findall(r"`(\w+)`", match[3])),
                              FROM.get(match[4].strip()) or set(match[4].strip().split(", ")))
            if section.startswith(ROCKETMQ_ONLY):
                rocketmq_only.add(match[1])
    return rows, rocketmq_only


def scrape(program, text):
    """{name: (type, labels)}; the text must be the format 0.0.4, each family once and together."""
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current, _, help_ = line[7:].partition(" ")
            assert current not in families, f"{program}: {current} is there twice"
            assert len(help_) > 3, f"{program}: {current} has no HELP"
            families[current] = [None, set()]
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == current and kind in ("counter", "gauge", "histogram"), line
            families[name][0] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, f"{program}: {line}"
            suffix = match[1].removeprefix(current)
            kind = families[current][0]
            assert suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",)), f"{program}: {line}"
            float(match[3])
            families[current][1] |= set(re.findall(r'(\w+)="', match[2] or "")) - ({"le"} if kind == "histogram" else set())
    for name, (kind, _) in families.items():
        assert kind, f"{program}: {name} has no TYPE"
    return {name: (kind, labels) for name, (kind, labels) in families.items()}


def test_every_metric_is_documented_and_every_documented_one_is_there():
    rows, rocketmq_only = documented()
    with System() as system:
        item = system.item(stock=1)
        key = "0198c1f0-6a3b-7c4d-8e5f-0123456789ab"
        assert system.buy(item, 7, key).status == 202
        item.await_settled()
        assert system.buy(item, 8).code == "SOLD_OUT"
        assert system.state(item, 7, key).code == "SUCCEEDED"
        assert client.get(system.query.ports["query"], f"/v1/activities/{item.activity}/skus/{item.sku}").status == 200
        seen = {}
        for program in system.programs:
            program.get("/readyz")
            program.get("/metrics")  # now the next one counts this one
            answer = program.get("/metrics")
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            for name, (kind, labels) in scrape(program.part, answer.body.decode()).items():
                assert name in rows, f"{program.part}: docs/metrics.md does not name {name}"
                want_kind, want_labels, programs = rows[name]
                assert kind == want_kind, f"{name} is a {kind}"
                # A gauge that is not known yet has no sample, and so no label to be seen.
                assert labels <= want_labels, f"{name} has the labels {labels}"
                assert program.part in programs, f"{program.part} has {name}, too"
                seen.setdefault(name, (set(), set()))[0].add(program.part)
                seen[name][1].update(labels)
    for name, (_, labels, programs) in rows.items():
        if name in rocketmq_only and name not in seen:
            continue
        assert name in seen, f"nobody has {name}, which docs/metrics.md names"
        assert seen[name][0] == programs, f"{name} is of {seen[name][0]}"
        assert seen[name][1] == labels, f"{name} has the labels {seen[name][1]}"
