"""scripts/run --queue rocketmq: the whole sale on a broker of its own, which is a part like the others."""
import os
import re
import shutil
import signal
import subprocess
import tempfile

from services import SOURCE, wait_for


def of(directory):
    """The pids of what runs out of that directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"{directory}/".encode() in open(f"/proc/{pid}/cmdline", "rb").read():
                found.append(int(pid))
        except OSError:
            pass
    return found


def test_a_sale_and_a_killed_broker():
    directory = tempfile.mkdtemp(prefix="sk-run-", dir="/tmp")
    with open(f"{directory}/out", "w+") as out:
        run = subprocess.Popen([f"{SOURCE}/scripts/run", "--queue", "rocketmq", "--stock", "500", "--buyers", "3000", "--dir",
                                f"{directory}/run"], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

        def told(what):
            assert run.poll() is None, open(out.name).read()[-3000:]
            return what in open(out.name).read()
        try:
            wait_for("storm and audit", lambda: told("up until Ctrl-C"), 500)
            text = open(out.name).read()
            assert "everything holds" in text and "!!!" not in text, text
            assert re.search(r"ACCEPTED +500 ", text), text
            env = dict(re.findall(r"^export (\w+)=(.*)$", open(f"{directory}/run/env").read(), re.M))
            assert int(env["SECKILL_BROKER_PID"]) in of(directory)
            # What people are told to source goes together with the settings.
            show = '. "$1" && "$SECKILL_BIN_DIR/seckillctl" --config "$SECKILL_CONFIG" queue show'
            assert subprocess.run(["bash", "-c", show, "bash", f"{directory}/run/env"], stdin=subprocess.DEVNULL).returncode == 0
            os.kill(int(env["SECKILL_BROKER_PID"]), signal.SIGKILL)
            wait_for("the broker", lambda: told("broker is back"), 200)
            run.send_signal(signal.SIGINT)
            assert run.wait(120) == 0
            assert of(f"{directory}/run") == []
        finally:
            run.kill()
            run.wait()
    wait_for("its parts to end", lambda: of(directory) == [])
    shutil.rmtree(directory)
