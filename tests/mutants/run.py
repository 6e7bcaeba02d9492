"""Shows that the tests have teeth: takes one guard at a time out of a copy of the tree (guards.py says which, and which test
is to notice) and demands that this test fails, for the reason named there, and passes with the guard in place.

    run.py                  every mutant; ends with 1 if one is not noticed
    run.py NAME…            those only (a guard's name: all of it); --list tells the names
    run.py --twelve         the first of each of the first twelve guards, and each UNIQUE
    run.py --check          only that each mutation still fits the source and its test is there, and that the page lists it
    run.py --page           writes the table of docs/reliability.md

The copy and its build stay in build/mutants, so that the next run only builds what changed. What counts as noticed: the
test program ran, the named test failed, and its output says why. A build that fails, a test that cannot start, one that
does not end: none of these is noticed, each is an error of the table.
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import time

from guards import GUARDS, MUTANTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = f"{ROOT}/build/mutants"
TREE = f"{WORK}/tree"
BUILD = f"{TREE}/build/dev"
PAGE = "docs/reliability.md"
BEGIN, END = "<!-- mutants: written by tests/mutants/run.py --page -->", "<!-- end of mutants -->"
PROGRAMS = ["seckill-api", "order-worker", "query-api", "seckillctl"]
TEST_S = 300
BUILD_S = 1200


class Wrong(Exception):
    """The table does not fit the tree, or nothing could be said about a mutant."""


# --- mutations ---

def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def newest_definition(root, function):
    """(path, begin, end) of the definition that counts: the last file of sql/ that has one."""
    head = re.compile(rf"^CREATE (?:OR REPLACE )?FUNCTION {function}\(", re.M)
    for name in sorted(os.listdir(f"{root}/sql"), reverse=True):
        found = list(head.finditer(read(f"{root}/sql/{name}")))
        if found:
            text, begin = read(f"{root}/sql/{name}"), found[-1].start()
            return f"sql/{name}", begin, text.index("\n$$;", begin)
    raise Wrong(f"no file of sql/ defines {function}")


def mutated(mutant, root):
    """(path, the file with the guard taken out). The old text has to be there exactly once."""
    path, begin, end = mutant.where, 0, None
    if mutant.where.startswith("function "):
        path, begin, end = newest_definition(root, mutant.where.split()[1])
    if not os.path.exists(f"{root}/{path}"):
        raise Wrong(f"{mutant.name}: there is no {path}")
    text = read(f"{root}/{path}")
    times = text.count(mutant.old, begin, end)
    if times != 1:
        raise Wrong(f"{mutant.name}: its text is {times} times in {path}, not once. If the guard moved, let tests/mutants/guards.py "
                    f"follow it:\n{mutant.old}")
    at = text.index(mutant.old, begin)
    return path, text[:at] + mutant.new + text[at + len(mutant.old):]


# --- tests ---

class Test:
    """One test: "tests/sql/test_place.py::test_x", or "flow_worker_place_test::test_x" of a cmocka program."""

    def __init__(self, spec):
        self.spec = spec
        self.program, self.name = spec.rsplit("::", 1)
        self.name = self.name.split("[")[0]
        self.python = self.program.endswith(".py") or "::" in self.program or self.program.startswith("tests/")

    @property
    def targets(self):
        if not self.python:
            return [self.program]
        return PROGRAMS if "/e2e/" in self.spec else []  # the scripts of lua/ and sql/ are read as they are

    def exists(self, root):
        if self.python:
            path = self.program.split("::")[0]
            return os.path.exists(f"{root}/{path}") and re.search(rf"^ *def {self.name}\(", read(f"{root}/{path}"), re.M)
        pattern = re.compile(rf"\b{self.name}\b")
        for directory, _, files in os.walk(f"{root}/tests"):
            if any(f.endswith(".c") and pattern.search(read(f"{directory}/{f}")) for f in files):
                return True
        return False

    def words(self, output):
        """What failed, and what it says of itself."""
        if self.python:
            return "\n".join(re.findall(r"^(?:>|E ).*", output, re.M))
        said = re.findall(r"^(?:\[  ERROR   \] --- |ERROR: |panic: ).*", output, re.M)
        for path, line in re.findall(r"^\[   LINE   \] --- (\S+?):(\d+): error", output, re.M):
            # An assertion may take several lines; cmocka tells the first or the last.
            lines = read(f"{BUILD}/{path}" if path.startswith(".") else path).splitlines()
            said += lines[int(line) - 3:int(line) + 2]
        return "\n".join(said)

    def failed(self, status, output):
        """Whether it was this very test that ran and failed."""
        if self.python:
            return status == 1 and re.search(rf"^FAILED \S*::{self.name}\b", output, re.M) and not re.search(r"^ERROR ", output, re.M)
        if status == 0:
            return False
        # One that ends the process is the last that began.
        began = re.findall(r"^\[ RUN      \] (\w+)", output, re.M)
        return re.search(rf"^\[  FAILED  \] {self.name}$", output, re.M) or began[-1:] == [self.name]


def execute(tests):
    """Runs tests of one program, or Python tests. (ended, status, output)"""
    # What a test that failed half-way has not freed is no news.
    env = dict(os.environ, SECKILL_BIN_DIR=f"{BUILD}/bin", SECKILL_SOURCE_DIR=TREE, PYTHONDONTWRITEBYTECODE="1",
               ASAN_OPTIONS="detect_leaks=0")
    env.pop("SECKILL_FULL", None)
    command = [f"{BUILD}/test/{tests[0].program}"]
    if tests[0].python:
        command = ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *(f"{TREE}/{t.spec}" for t in tests)]
    try:
        done = subprocess.run(command, cwd=TREE, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TEST_S)
    except subprocess.TimeoutExpired as e:
        return False, None, (e.stdout or b"").decode(errors="replace")
    return True, done.returncode, done.stdout


# --- the copy ---

def sync():
    """Makes the copy like the tree. Only what differs is written, so that a build does no more than it must."""
    wanted = set()
    for directory, dirs, files in os.walk(ROOT):
        dirs[:] = [d for d in dirs if d not in ("build", "run", ".git", "__pycache__")]
        for name in files:
            path = os.path.relpath(f"{directory}/{name}", ROOT)
            wanted.add(path)
            source, target = f"{ROOT}/{path}", f"{TREE}/{path}"
            with open(source, "rb") as f:
                body = f.read()
            if os.path.exists(target):
                with open(target, "rb") as f:
                    if f.read() == body:
                        continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
    for directory, dirs, files in os.walk(TREE):
        dirs[:] = [d for d in dirs if not (d == "build" and directory == TREE)]
        for name in files:
            if os.path.relpath(f"{directory}/{name}", TREE) not in wanted:
                os.unlink(f"{directory}/{name}")


def build(targets):
    """Whether it went well, and its output."""
    if not targets:
        return True, ""
    env = dict(os.environ, CCACHE_BASEDIR=TREE, CCACHE_NOHASHDIR="1")
    if shutil.which("ccache"):
        env.setdefault("CMAKE_C_COMPILER_LAUNCHER", "ccache")
    output = ""
    commands = [["ninja", "-j", "2", "-C", BUILD, *targets]]
    if not os.path.exists(f"{BUILD}/build.ninja"):
        commands.insert(0, ["cmake", "--preset", "dev"])
    for command in commands:
        done = subprocess.run(command, cwd=TREE, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=BUILD_S)
        output += done.stdout
        if done.returncode:
            return False, output
    return True, output


@contextlib.contextmanager
def without_guard(mutant):
    path, text = mutated(mutant, TREE)
    before = read(f"{TREE}/{path}")
    write(f"{TREE}/{path}", text)
    try:
        yield
    finally:
        write(f"{TREE}/{path}", before)


def judge(mutant):
    """Raises Wrong, or returns whether its test noticed."""
    test = Test(mutant.test)
    with without_guard(mutant):
        built, output = build(test.targets)
        if not built:
            raise Wrong(f"does not build without its guard:\n{output[-3000:]}")
        ended, status, output = execute([test])
    write(f"{WORK}/{mutant.name}.log", output)
    if not ended:
        raise Wrong(f"{mutant.test} did not end in {TEST_S} s")
    if status == 0:
        return False
    if not test.failed(status, output):
        raise Wrong(f"something else than {mutant.test} failed:\n{output[-3000:]}")
    if mutant.because not in test.words(output):
        raise Wrong(f"{mutant.test} failed, but nothing says {mutant.because!r}:\n{test.words(output)[-3000:]}")
    return True


# --- the table ---

def page():
    lines = [BEGIN, "", "| guard | without it | the test that notices |", "|---|---|---|"]
    for guard, says in GUARDS.items():
        for mutant in MUTANTS:
            if mutant.guard == guard:
                program, name = mutant.test.rsplit("::", 1)
                lines.append(f"| {says} | {mutant.without} | {program.removeprefix('tests/')}: `{name}` |")
    return "\n".join([*lines, "", END])


def replace_page(text):
    if BEGIN not in text or END not in text:
        raise Wrong(f"{PAGE} has no place for the mutants ({BEGIN} … {END})")
    return text[:text.index(BEGIN)] + page() + text[text.index(END) + len(END):]


def check():
    """What is wrong with the table, without running anything."""
    wrong = []
    names = [m.name for m in MUTANTS]
    wrong += [f"{name} is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    wrong += [f"guard {guard} has no mutant" for guard in GUARDS if guard not in {m.guard for m in MUTANTS}]
    for mutant in MUTANTS:
        try:
            if mutant.guard not in GUARDS:
                raise Wrong(f"{mutant.name}: there is no guard {mutant.guard}")
            mutated(mutant, ROOT)
            if not Test(mutant.test).exists(ROOT):
                raise Wrong(f"{mutant.name}: there is no test {mutant.test}")
        except Wrong as e:
            wrong.append(str(e))
    try:
        text = read(f"{ROOT}/{PAGE}")
        if replace_page(text) != text:
            wrong.append(f"{PAGE} does not list them as they are: run tests/mutants/run.py --page")
    except (OSError, Wrong) as e:
        wrong.append(str(e))
    return wrong


def chosen(words):
    unknown = [w for w in words if w not in GUARDS and w not in [m.name for m in MUTANTS]]
    if unknown:
        raise Wrong(f"no such mutant or guard: {' '.join(unknown)}")
    return [m for m in MUTANTS if not words or m.name in words or m.guard in words]


def twelve():
    """Names: what each CI run shows."""
    names = [m.name for m in MUTANTS if m.guard == "unique"]
    for guard in list(GUARDS)[:12]:
        if guard != "unique":
            names.append(next(m.name for m in MUTANTS if m.guard == guard))
    return names


def run(words):
    mutants = chosen(words)
    os.makedirs(WORK, exist_ok=True)
    sync()
    tests = {m.test: Test(m.test) for m in mutants}
    built, output = build(sorted({t for test in tests.values() for t in test.targets}))
    if not built:
        raise Wrong(f"the tree does not build:\n{output[-3000:]}")
    # Together: of Python all that share servers, of C each program once.
    together = {}
    for test in tests.values():
        together.setdefault(os.path.dirname(test.program) or test.program, []).append(test)
    for some in together.values():
        ended, status, output = execute(some)
        if not ended or status != 0:
            raise Wrong(f"{' '.join(t.spec for t in some)}: fails with every guard in place:\n{output[-3000:]}")
    print(f"{len(tests)} tests pass with every guard in place", flush=True)
    noticed, bad = 0, []
    for mutant in mutants:
        began = time.monotonic()
        try:
            result = judge(mutant)
            word = "noticed" if result else "NOT NOTICED"
        except Wrong as e:
            result, word = False, f"WRONG: {e}"
        noticed += bool(result)
        if not result:
            bad.append(mutant.name)
        print(f"{mutant.guard:24} {mutant.name:36} {time.monotonic() - began:5.1f} s  {word}", flush=True)
    build(sorted({t for test in tests.values() for t in test.targets}))  # the copy is as it was
    guards = {m.guard for m in mutants}
    whole = guards - {m.guard for m in mutants if m.name in bad}
    print(f"{noticed} of {len(mutants)} mutants noticed; {len(whole)} of {len(guards)} guards")
    return 1 if bad else 0


def main():
    words = sys.argv[1:]
    try:
        if words in (["-h"], ["--help"]):
            print(__doc__)
        elif words == ["--list"]:
            for m in MUTANTS:
                print(f"{m.guard:24} {m.name:36} {m.without}")
        elif words == ["--check"]:
            wrong = check()
            for line in wrong:
                print(line, file=sys.stderr)
            return 1 if wrong else 0
        elif words == ["--twelve"]:
            return run(twelve())
        elif words == ["--page"]:
            write(f"{ROOT}/{PAGE}", replace_page(read(f"{ROOT}/{PAGE}")))
        else:
            return run(words)
    except Wrong as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
