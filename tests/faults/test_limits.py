"""failures.md, matrix: file descriptors run out, disks are full, memory has a limit. What ends a process is a crash as others
are; what does not, passes. Disks and memory need root: mount, cgroups."""
import os
import resource
import subprocess
import time

import client
import pytest
from faults import SHORT, TIMES, sell_out_and_audit, settle_and_audit
from services import wait_for
from system import System

root = pytest.mark.skipif(os.getuid() != 0, reason="mounts, or moves processes between cgroups")


def descriptors(program, spare):
    """From now on it can open so many more; None: as many as before."""
    now = len(os.listdir(f"/proc/{program.pid}/fd"))
    _, most = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (most if spare is None else now + spare, most))


def test_descriptors_run_out():
    """seckill-api accepts no more than it can: those who are connected go on buying, it does not spin, and when there are some
    again the others are served. order-worker, which loses its stores meanwhile, connects again as soon as it can."""
    with System(SHORT) as s:
        for _ in range(TIMES["limits"]):
            item = s.item(stock=60)
            with client.Connection(s.api.ports["api"]) as kept:
                kept.send(s.order_request(item, 1))
                assert kept.answer().status == 202
                descriptors(s.api, 5)
                crowd = [client.Connection(s.api.ports["api"]) for _ in range(40)]
                for user in range(2, 12):
                    kept.send(s.order_request(item, user))
                    assert kept.answer().status == 202
                began, used = time.monotonic(), cpu(s.api)
                time.sleep(1)
                assert cpu(s.api) - used < 0.7 * (time.monotonic() - began), "it spins"
                descriptors(s.api, None)
                for user, c in enumerate(crowd, 100):
                    c.send(s.order_request(item, user))
                assert [c.answer().status for c in crowd] == [202] * 40
                for c in crowd:
                    c.close()
            descriptors(s.worker, 0)
            s.redis.kill()
            s.redis.start()
            wait_for("seckill-api", lambda i=item: s.buy(i, 500).status == 202)
            descriptors(s.worker, None)
            settle_and_audit(item, 52)
        print(f"made {2 * TIMES['limits']} shortages of descriptors")


def cpu(program):
    """Seconds."""
    with open(f"/proc/{program.pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Disk:
    """A small one of its own, mounted where a server keeps its data."""

    def __init__(self, path, megabytes):
        self.path = path
        os.makedirs(path, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "tmpfs", path], check=True)

    def fill(self):
        with open(f"{self.path}/filler", "wb", buffering=0) as f:
            try:
                while f.write(b"x" * 4096) == 4096:
                    pass
            except OSError:
                pass

    def free(self):
        os.unlink(f"{self.path}/filler")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        subprocess.run(["umount", "-l", self.path], check=True)
        os.rmdir(self.path)


@root
def test_redis_has_no_room_left():
    """With AOF always it ends: what it could not write it has not confirmed."""
    s = System(SHORT)
    with Disk(s.redis.dir, 8) as disk, s:
        for _ in range(TIMES["limits"]):
            item = s.item(stock=200)
            storm = s.storm(item, 300, "--rate", 150, background=True)
            wait_for("a sale", lambda i=item: i.books()["seq"] > 20)
            disk.fill()
            s.redis.await_exit()
            disk.free()
            s.redis.start()
            s.storm_end(storm)
            sell_out_and_audit(item, 200)
        print(f"made {TIMES['limits']} full disks under Redis")


@root
def test_postgresql_has_no_room_left():
    """PANIC at the next piece of WAL; the orders wait in the queue."""
    s = System(SHORT)
    with Disk(s.pg.dir, 160) as disk:
        with s:
            for _ in range(TIMES["limits"]):
                item = s.item(stock=200)
                storm = s.storm(item, 300, "--rate", 150, background=True)
                wait_for("orders", lambda i=item: i.orders() > 20)
                disk.fill()
                try:  # the sale itself may have brought it down already
                    with s.pg.connect() as c:
                        for _ in range(20):
                            c.execute("SELECT pg_switch_wal()")
                            c.execute("CREATE TABLE IF NOT EXISTS filler (n int)")
                            c.execute("INSERT INTO filler SELECT generate_series(1, 100)")
                except Exception as e:  # pylint: disable=broad-except
                    print(f"PostgreSQL: {e!r}")
                s.pg.stop_immediately()
                disk.free()
                s.pg.start()
                s.storm_end(storm)
                sell_out_and_audit(item, 200)
            print(f"made {TIMES['limits']} full disks under PostgreSQL")


class MemoryLimit:
    """A cgroup (v1) of its own: what a process needs from now on, beyond so many bytes, ends it (OOM)."""

    def __init__(self, pid, most):
        self.path = f"/sys/fs/cgroup/memory/sk-{os.getpid()}"
        os.makedirs(self.path, exist_ok=True)
        self._write("memory.limit_in_bytes", most)
        self._write("cgroup.procs", pid)

    def _write(self, name, value):
        with open(f"{self.path}/{name}", "w", encoding="ascii") as f:
            f.write(str(value))

    def remove(self):
        wait_for("the cgroup to be empty", lambda: not open(f"{self.path}/cgroup.procs", encoding="ascii").read())
        os.rmdir(self.path)


@root
@pytest.mark.skipif(not os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes"), reason="cgroup v1 has no memory controller here")
def test_memory_has_a_limit():
    """Redis is ended by the kernel in the middle of a sale (137), and has everything that it confirmed."""
    with System(SHORT) as s:
        for _ in range(TIMES["limits"]):
            item = s.item(stock=2000)
            storm = s.storm(item, 2400, "--rate", 500, background=True)
            wait_for("a sale", lambda i=item: i.books()["seq"] > 50)
            limit = MemoryLimit(s.redis.pid, 256 * 1024)
            s.redis.await_exit(30)
            limit.remove()
            s.redis.start()
            s.storm_end(storm)
            sell_out_and_audit(item, 2000)
        print(f"made {TIMES['limits']} memory limits")

