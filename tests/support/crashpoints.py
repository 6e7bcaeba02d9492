"""The crash points (src/base/crashpoint.h). Their registry is the code itself: what is called somewhere in src exists.

    crashpoints.py            lists them, with the file of each
    crashpoints.py --check    fails when one is not armed by any test, or when there are too few
"""
import os
import re
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CALLED = re.compile(r'\bcrashpoint(?:_for)?\("(\w+)"')
LEAST = 30  # the design's figure


def _files(directory, ending):
    for where, _, files in os.walk(f"{SOURCE}/{directory}"):
        for name in sorted(files):
            if name.endswith(ending):
                yield os.path.join(where, name)


def points():
    """{name: file of src}; the same name in two files would be two points, and is refused."""
    found = {}
    for path in _files("src", ".c"):
        with open(path, encoding="utf-8") as f:
            for name in CALLED.findall(f.read()):
                found.setdefault(name, set()).add(os.path.relpath(path, SOURCE))
    twice = {name: files for name, files in found.items() if len(files) > 1}
    assert not twice, f"the same name in several files: {twice}"
    return {name: min(files) for name, files in found.items()}


def armed(names):
    """Those of names that some test arms: as a text of its own, with or without how often it is reached."""
    texts = set()
    for path in _files("tests", ".py"):
        if os.path.basename(path) != os.path.basename(__file__):
            with open(path, encoding="utf-8") as f:
                texts.update(re.findall(r'["\'](\w+)(?::[^"\']*)?["\']', f.read()))
    return {name for name in names if name in texts}


def main():
    found = points()
    if sys.argv[1:] != ["--check"]:
        for name, path in sorted(found.items(), key=lambda p: (p[1], p[0])):
            print(f"{name:24} {path}")
        return 0
    wrong = [f"no test arms {name} ({found[name]})" for name in sorted(set(found) - armed(found))]
    if len(found) < LEAST:
        wrong.append(f"only {len(found)} crash points; there were to be {LEAST}")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
