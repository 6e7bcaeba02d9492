"""What the compiler does not see. lint.py ROOT; prints every finding, ends with 1 if there is one.

format      clang-format over the C files
shell       shellcheck -x over the scripts
size        a file of src/ has at most 450 lines (CONVENTIONS.md: about 400)
layers      third-party headers only where ARCHITECTURE.md says; no "../"; no sockets and no clock in the domain
rules       a cited rule is in docs/rules.md (that each has a test: tests/support/rules.py)
links       a file that a document links to is there
"""
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
LINES_MAX = 450
# Which library's headers which directory may see; whatever else stands in <…> is the C library's.
OWN = {"adapter/http": {"llhttp"}, "adapter/hmac": {"openssl"}, "adapter/jwt": {"openssl"}, "adapter/pg": {"libpq"}, "adapter/redis": {"hiredis"},
       "adapter/yaml": {"yaml"}, "adapter/h2grpc": {"nghttp2", "openssl"}, "adapter/rocketmq": {"protobuf", "openssl"},
       "loop": {"event2"}}
LIBC = {"assert", "ctype", "dirent", "endian", "errno", "fcntl", "inttypes", "limits", "math", "poll", "pthread", "pwd", "sched",
        "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "strings",
        "time", "unistd", "arpa/inet", "linux/filter", "netinet/in", "netinet/tcp", "sys/eventfd", "sys/random", "sys/resource",
        "sys/socket", "sys/stat", "sys/timerfd", "sys/types", "sys/uio", "sys/un", "sys/wait"}
NO_WORLD = re.compile(r'<(sys/socket|netinet/\w+|arpa/inet|poll|pthread|time|sys/time|unistd|fcntl)\.h>|"base/clock\.h"')
RULES = re.compile(r"\b[Rr]ules?[ _]((?:\d+[a-d]?(?:\([a-d]\))?(?:[–-]\d+)?(?:, | and | to |_and_)?)+)")
findings = []


def finding(where, what):
    findings.append(f"{where}: {what}")


def tracked():
    """Of git; without git (an unpacked archive), everything but what is built."""
    done = subprocess.run(["git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "ls-files", "-z"], capture_output=True, text=True)
    if done.returncode == 0:
        return sorted(f for f in done.stdout.split("\0") if f and os.path.isfile(f"{ROOT}/{f}"))
    return sorted(os.path.relpath(f"{d}/{f}", ROOT) for d, dirs, files in os.walk(ROOT) for f in files
                  if os.path.relpath(d, ROOT).split("/")[0] not in ("build", "run", ".git"))


def text(path):
    with open(f"{ROOT}/{path}", encoding="utf-8", errors="replace") as f:
        return f.read()


def check_format(c_files):
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *c_files], cwd=ROOT, capture_output=True, text=True)
    for path in sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M))):
        finding(path, "clang-format would write it differently (clang-format -i)")
    if done.returncode and not findings:
        finding("clang-format", done.stderr[:2000])


def check_shell(files):
    scripts = [f for f in files if f.endswith(".sh") or text_begins(f, b"#!/usr/bin/env bash") or text_begins(f, b"#!/bin/")]
    done = subprocess.run(["shellcheck", "-x", "-f", "gcc", *scripts], cwd=ROOT, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        finding("shellcheck", line)
    if done.returncode and not done.stdout:
        finding("shellcheck", done.stderr[:2000])


def text_begins(path, start):
    with open(f"{ROOT}/{path}", "rb") as f:
        return f.read(len(start)) == start


def check_size(c_files):
    for path in c_files:
        lines = text(path).count("\n")
        if path.startswith("src/") and lines > LINES_MAX:
            finding(path, f"{lines} lines; at most {LINES_MAX}")


def check_layers(c_files):
    for path in c_files:
        body = text(path)
        if re.search(r'#include\s+["<]\.\./', body):
            finding(path, 'an include with "../"')
        if not path.startswith("src/"):
            continue
        layer = path.split("/")[1]
        directory = "/".join(path.split("/")[1:-1])
        for header in re.findall(r"#include\s+<([^>]+)\.h>", body):
            if header not in LIBC and header.split("/")[0].split("-")[0] not in OWN.get(directory, ()):
                finding(path, f"<{header}.h> does not belong into {directory}")
        if layer in ("core", "app", "port"):
            for header in NO_WORLD.finditer(body):
                finding(path, f"{header[0]} does not belong into the domain: time and the world are passed in")


def rules_in(body):
    """The numbers of all cited rules. A comment's line breaks are none."""
    for match in RULES.finditer(re.sub(r"\n\s*(?:\*|//|--|#)?\s*", " ", body)):
        for first, last in re.findall(r"(\d+)(?:[a-d])?(?:\([a-d]\))?(?:[–-](\d+))?", match[1]):
            yield from range(int(first), int(last or first) + 1)


def check_rules(files):
    known = {int(n) for n in re.findall(r"^(\d+)\. ", text("docs/rules.md"), re.M)}
    for path in files:
        if path.startswith(("src/", "tests/", "lua/", "sql/", "docs/")) and path != "tests/lint/lint.py":
            for n in sorted(set(rules_in(text(path))) - known):
                finding(path, f"there is no rule {n} in docs/rules.md")


def check_links(files):
    for path in files:
        if not path.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text(path)):
            if "://" not in target and not os.path.exists(f"{ROOT}/{os.path.dirname(path)}/{target}"):
                finding(path, f"links to {target}, which is not there")


def main():
    files = tracked()
    c_files = [f for f in files if f.endswith((".c", ".h"))]
    check_format(c_files)
    check_shell(files)
    check_size(c_files)
    check_layers(c_files)
    check_rules(files)
    check_links(files)
    print("\n".join(findings))
    print(f"lint: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
