"""Other RocketMQs: with users and TLS, with the broker in a process of its own, with a full disk."""
import os
import re
import shutil
import subprocess

import pytest
from private_rocketmq import PrivateRocketmq, Refused, SecondBroker
from sale import SHORT, System, await_ready, listening, settle_and_audit, wait_for
from system import FULL


class OnSmallDisk(PrivateRocketmq):
    """Its store is a file system of its own, if we may mount one."""

    mounted = False

    def _prepare(self, *more):
        super()._prepare(*more)
        if os.getuid() != 0:
            return
        shutil.move(f"{self.dir}/store", f"{self.dir}/seed")
        os.mkdir(f"{self.dir}/store")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", f"{self.dir}/store"], check=True)
        self.mounted = True
        subprocess.run(["cp", "-a", f"{self.dir}/seed/.", f"{self.dir}/store"], check=True)

    def fill(self):
        path = f"{self.dir}/store"
        space = os.statvfs(path)
        # Over its bound of 90 %, but not so full that what it has mapped finds no room: that would kill a real one.
        ballast = space.f_bavail - space.f_blocks * 6 // 100
        with open(f"{path}/ballast", "wb") as f:
            f.write(bytes(ballast * space.f_frsize))

    def drain(self):
        os.unlink(f"{self.dir}/store/ballast")

    def stop(self):
        for part in self.parts:
            part.stop()
        if self.mounted:
            subprocess.run(["umount", f"{self.dir}/store"], check=True)
        super().stop()


@pytest.fixture(scope="module")
def guarded(version):
    """With users. It looks at its disk each second, but not in its first minute."""
    with OnSmallDisk(version=version, auth=True, fast=True, broker={"cleanResourceInterval": 1000}) as mq:
        yield mq


def test_users_and_tls(guarded):
    """Wrong credentials are told at the start, in readiness and as a metric, by both sides; with the right ones a sale runs,
    encrypted."""
    mq = guarded
    s = System({**SHORT, "rocketmq.tls": "true", "rocketmq.ca_file": mq.ca_file, "api.publish_refused": "strict"}, queue=mq)
    wrong = f"{s.dir}/wrong.secret"
    with open(wrong, "w", encoding="ascii") as f:
        f.write("not-the-secret\n")
    for program in (s.api, s.worker):
        program.settings["rocketmq.secret_key_file"] = wrong
        program.ready = lambda p=program: listening(p)
    with s:
        for program in (s.api, s.worker):
            wait_for("it to be said", lambda p=program: b"refuses us" in p.get("/readyz").body)
            assert program.get("/readyz").status == 503 and program.get("/startupz").status == 503
            assert program.metric("seckill_mq_complaints") >= 1
            wait_for("the log", lambda p=program: any("refuses us" in (line["why"] or "")
                                                      for line in p.logged("waiting for the queue")))
            assert program.terminate() == 0
            assert "not-the-secret" not in program.log()
            del program.settings["rocketmq.secret_key_file"], program.ready
            program.start()
        item = s.item(stock=20)
        for user in range(1, 22):
            assert s.buy(item, user).status == (202 if user <= 20 else 409)
        settle_and_audit(item, 20)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_full_disk(guarded):
    """The broker refuses, or answers what leaves it open; nobody who was told 202 loses anything by it, and it heals."""
    mq = guarded

    def refuses():
        try:
            return mq.send("seckill-probe", "x") and False
        except Refused as e:
            return "full" in e.text

    with System(SHORT, queue=mq) as s:
        item = s.item(stock=10)
        assert s.buy(item, 1).status == 202
        item.await_settled()
        mq.fill()
        wait_for("the broker to notice", refuses, 120)
        for user in range(2, 8):
            assert s.buy(item, user).status == 202
        wait_for("it to be told", lambda: sum(s.api.metric(f'seckill_reservation_publish_total{{result="{r}"}}')
                                              for r in ("unknown", "refused")) == 6)
        assert item.orders() == 1
        mq.drain()
        settle_and_audit(item, 7, timeout=90)


def stored(s, mq):
    """Messages of the sale's topic that this broker was given."""
    told = mq.remoting(208, consumerGroup=s.group, topic=s.topic)
    return sum(int(n) for n in re.findall(r'"brokerOffset":(\d+)', told))


def test_brokers_of_their_own(version):
    """CLUSTER, two brokers: both get messages; the proxy goes and comes back, then one broker, each under load, while
    the other takes what comes."""
    with PrivateRocketmq(version=version, cluster=True, fast=True) as mq, SecondBroker(mq, version=version, fast=True) as other:
        with System(SHORT, queue=mq) as s:
            item = s.item(stock=300)
            storm = s.storm(item, 400, "--rate", 40, background=True)
            wait_for("orders", lambda: item.orders() >= 20)
            wait_for("both to have some", lambda: min(stored(s, mq), stored(s, other)) > 0)
            if FULL:
                mq.restart_proxy()  # up to half a minute
            else:
                mq.kill_proxy()
                mq.again()
            await_ready(s.worker)
            sold = item.orders()
            wait_for("orders", lambda: item.orders() >= sold + 20)
            mq.kill()
            sold = item.orders()
            wait_for("orders by the other broker", lambda: item.orders() >= sold + 20)
            mq.again()
            s.storm_end(storm)
            settle_and_audit(item, 300, timeout=120)
            await_ready(s.api, s.worker)
            assert s.sql("SELECT count(*) FROM dead_letters") == [(0,)]
