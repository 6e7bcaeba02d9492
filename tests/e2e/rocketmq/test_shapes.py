"""Other RocketMQs: with users and TLS, with the broker in a process of its own, with a full disk."""
import os
import shutil
import subprocess

import pytest
from private_rocketmq import PrivateRocketmq
from sale import SHORT, System, await_ready, listening, settle_and_audit, wait_for


def test_users_and_tls(version):
    """Wrong credentials are told at the start, in readiness and as a metric, by both sides; with the right ones a sale runs,
    encrypted."""
    with PrivateRocketmq(version=version, auth=True, fast=True) as mq:
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


def test_a_broker_of_its_own(version):
    """CLUSTER: a small sale; the proxy ends in an orderly way (GOAWAY), is killed, the broker is killed, each under load."""
    with PrivateRocketmq(version=version, cluster=True, fast=True) as mq:
        with System(SHORT, queue=mq) as s:
            item = s.item(stock=300)
            storm = s.storm(item, 400, "--rate", 40, background=True)
            wait_for("orders", lambda: item.orders() >= 20)
            mq.restart_proxy()
            await_ready(s.worker)
            sold = item.orders()
            wait_for("orders", lambda: item.orders() >= sold + 20)
            mq.kill_proxy()
            mq.kill()
            mq.again()
            s.storm_end(storm)
            settle_and_audit(item, 300, timeout=120)
            await_ready(s.api, s.worker)
            assert s.sql("SELECT count(*) FROM dead_letters") == [(0,)]


class OnSmallDisk(PrivateRocketmq):
    """Its store is a file system of its own."""

    mounted = False

    def _prepare(self, *more):
        super()._prepare(*more)
        shutil.move(f"{self.dir}/store", f"{self.dir}/seed")
        os.mkdir(f"{self.dir}/store")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", f"{self.dir}/store"], check=True)
        self.mounted = True
        subprocess.run(["cp", "-a", f"{self.dir}/seed/.", f"{self.dir}/store"], check=True)

    def fill(self):
        path = f"{self.dir}/store"
        left = os.statvfs(path)
        with open(f"{path}/ballast", "wb") as f:
            f.write(bytes(left.f_bavail * left.f_frsize - (4 << 20)))

    def drain(self):
        os.unlink(f"{self.dir}/store/ballast")

    def stop(self):
        for part in self.parts:
            part.stop()
        if self.mounted:
            subprocess.run(["umount", f"{self.dir}/store"], check=True)
        super().stop()


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_full_disk():
    """The broker refuses, or answers what leaves it open; nobody who was told 202 loses anything by it, and it heals."""
    with OnSmallDisk(fast=True) as mq:
        with System({**SHORT, "worker.recover_after": "3s"}, queue=mq) as s:
            item = s.item(stock=40)
            assert s.buy(item, 1).status == 202
            item.await_settled()
            mq.fill()
            users = iter(range(2, 41))

            def not_accepted():
                user = next(users)
                assert s.buy(item, user).status == 202
                return s.api.metric('seckill_reservation_publish_total{result="unknown"}') + s.api.metric(
                    'seckill_reservation_publish_total{result="refused"}') > 0
            wait_for("the broker to notice", lambda: wait_a_moment() or not_accepted(), 60)
            held = item.books()["seq"] - 1
            mq.drain()
            settle_and_audit(item, held, timeout=90)


def wait_a_moment():
    """Between two looks of the broker at its disk."""
    import time
    time.sleep(1)
