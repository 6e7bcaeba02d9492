"""scripts/rocketmq: up, status, down; who comes twice, who is in the way, who is killed. Nothing stays running."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from private_rocketmq import LONG, SCRIPT
from services import as_from_a_terminal, wait_for

TIMEOUT = 400


@pytest.fixture
def place():
    directory = tempfile.mkdtemp(prefix="sk-up-", dir="/tmp")
    yield f"{directory}/mq"
    for pid in running(f"{directory}/mq"):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(directory)


def script(command, directory, *args):
    return subprocess.run([SCRIPT, command, "--dir", directory, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT)


def running(directory):
    """The pids of all JVMs of that directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"-Duser.home={directory}\0".encode() in open(f"/proc/{pid}/cmdline", "rb").read():
                found.append(int(pid))
        except OSError:
            pass
    return sorted(found)


def env_of(directory):
    lines = (line.split(" ", 1)[1].split("=", 1) for line in open(f"{directory}/env"))
    return {k: v.strip().strip("'") for k, v in lines}


def test_up_again_status_down(place):
    assert script("status", place).returncode == 1
    done = script("up", place, "--topic", "mine:FIFO:2", "--group", "mine-g:3")
    assert done.returncode == 0, done.stdout + done.stderr
    pids = running(place)
    assert len(pids) == 2
    env = env_of(place)
    assert env["SECKILL_ROCKETMQ_TOPIC"] == "seckill-order-events" and env["SECKILL_ROCKETMQ_VERSION"] == "5.5.0"
    socket.create_connection(env["SECKILL_ROCKETMQ_ENDPOINTS"].split(":")).close()

    # Who says it again means the same one; with other words, it is a mistake.
    again = script("up", place, "--topic", "mine:FIFO:2", "--group", "mine-g:3")
    assert again.returncode == 0 and running(place) == pids and env_of(place) == env
    other = script("up", place, "--fast")
    assert other.returncode == 1 and "other options" in other.stderr and running(place) == pids
    assert script("prepare", place).returncode == 1 and running(place) == pids
    told = script("status", place)
    assert told.returncode == 0 and all(str(pid) in told.stdout for pid in pids), told.stdout

    # A part that was killed is what `up` brings back; the other one stays.
    name_server, = (p for p in pids if b"NamesrvStartup" in open(f"/proc/{p}/cmdline", "rb").read())
    proxy, = set(pids) - {name_server}
    os.kill(proxy, signal.SIGKILL)
    # The one that dies has no command line any more some time before it is gone.
    wait_for("its end", lambda: script("status", place).returncode == 1)
    assert running(place) == [name_server]
    assert script("up", place, "--topic", "mine:FIFO:2", "--group", "mine-g:3").returncode == 0
    assert name_server in running(place) and len(running(place)) == 2 and env_of(place) == env

    assert script("down", place, "--grace", "1").returncode == 0
    assert running(place) == []
    assert script("status", place).returncode == 1
    assert script("down", place).returncode == 0  # nothing to do


def test_a_taken_port_is_avoided(place):
    assert script("prepare", place).returncode == 0
    port = int(env_of(place)["SECKILL_ROCKETMQ_ENDPOINTS"].split(":")[1])
    for offset in range(0, 7):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port - 1 + offset))  # not listening: a connection would not tell
            given = script("prepare", place, "--base", str(port - 1))
            assert offset == 4 or given.returncode == 1 and "taken" in given.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        done = script("prepare", place)
        assert done.returncode == 0, done.stdout + done.stderr
    assert abs(int(env_of(place)["SECKILL_ROCKETMQ_ENDPOINTS"].split(":")[1]) - port) > 7


def test_two_prepared_at_once_have_ports_of_their_own(place):
    """One that starts does not listen for seconds."""
    for n in range(8):
        assert script("prepare", f"{place}{n}").returncode == 0
    assert len({env_of(f"{place}{n}")["SECKILL_ROCKETMQ_NAMESRV"] for n in range(8)}) == 8


@pytest.mark.parametrize("number,left", [(signal.SIGTERM, 143), pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=LONG)])
def test_in_front_it_leaves_nothing(place, number, left):
    front = subprocess.Popen([SCRIPT, "up", "--foreground", "--dir", place, "--grace", "1"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in front.stdout:
        if "all of it" in line:
            break
    assert len(running(place)) == 2 and script("status", place).returncode == 0
    front.send_signal(number)
    told = front.stdout.read()
    assert front.wait(60) == left, told
    front.stdout.close()
    wait_for("the end of its parts", lambda: running(place) == [])


def test_interrupted_while_it_starts(place):
    starting = subprocess.Popen([SCRIPT, "up", "--dir", place, "--grace", "1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, preexec_fn=as_from_a_terminal)
    wait_for("its first part", lambda: running(place), 60)
    os.kill(running(place)[0], signal.SIGSTOP)  # so it cannot be up before it is interrupted
    wait_for("its parts", lambda: len(running(place)) == 2, 60)
    assert starting.poll() is None

    def ended():
        # Once in some hundred times bash loses an INT: when a child of it ends just then.
        starting.send_signal(signal.SIGINT)
        try:
            return starting.wait(5) == 130
        except subprocess.TimeoutExpired:
            return False
    wait_for("its end", ended, 60)
    assert running(place) == []


def test_what_is_not_ours_is_left_alone(place):
    os.makedirs(f"{place}/store")
    assert script("up", place).returncode == 1
    assert os.listdir(place) == ["store"]
    assert script("down", place).returncode == 1
    assert script("up", place, "--version", "4.9").returncode == 1
    assert script("up", f"{place}2", "what").returncode == 1 and not os.path.exists(f"{place}2")
