"""Private servers for pytest suites: PostgreSQL, PgBouncer and Redis on Unix sockets below /tmp. Each ends with the test
process, however that ends (tether.sh). Use them as context managers, or the fixtures at the bottom from a conftest.py:

    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
    from services import postgres, redis_server  # noqa: F401
"""
import functools
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

SUPPORT = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(SUPPORT))
PG_BIN = "/usr/lib/postgresql/15/bin"


def wait_for(what, condition, timeout=90.0):
    """Polls condition() until it is true and returns its value. What takes longer is asked less often: the processor is
    for who is waited for."""
    end = time.monotonic() + timeout
    pause = 0.01
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(pause)
        pause = min(1.3 * pause, 0.025)


def as_from_a_terminal():
    """As preexec_fn of what is to be interrupted: a shell's background passes SIGINT on as ignored, and so do we."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@functools.lru_cache(maxsize=None)
def _namespaces():
    return subprocess.run(["unshare", "--user", "true"], stderr=subprocess.DEVNULL).returncode == 0


def as_postgres(directory):
    """What to put before a command that refuses root, so that it can use directory."""
    if os.getuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    if _namespaces():
        return ["unshare", "--user", f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}"]
    os.chown(directory, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Server:
    """A foreground process behind tether.sh. pid is the server's own."""

    stop_signal = signal.SIGTERM

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="sk-", dir="/tmp")
        self.tether = None
        self.pid = None

    def command(self):
        raise NotImplementedError

    def ready(self):
        raise NotImplementedError

    def start(self):
        with open(f"{self.dir}/log", "ab") as log:
            self.tether = subprocess.Popen(
                [f"{SUPPORT}/tether.sh", signal.Signals(self.stop_signal).name[3:], *self.command()],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.pid = int(self.tether.stdout.readline())

        def up():
            if self.tether.poll() is not None:
                raise RuntimeError(f"{type(self).__name__} ended: {open(self.dir + '/log').read()[-2000:]}")
            return self.ready()

        wait_for(f"{type(self).__name__} to come up", up)
        return self

    def _ended(self):
        self.tether.stdin.close()
        self.tether.stdout.close()
        self.tether.wait(60)
        self.tether = None

    def down(self):
        """Ends the server in an orderly way; start() brings it back with its data."""
        if self.tether:
            self._ended()

    def kill(self):
        """kill -9."""
        os.kill(self.pid, signal.SIGKILL)
        self._ended()

    def await_exit(self, timeout=90.0):
        """Until it ended by itself; start() brings it back."""
        wait_for(f"{type(self).__name__} to end", lambda: self.tether.poll() is not None, timeout)
        self._ended()

    def processes(self):
        """Its own pid and its children's, as far as they are alive."""
        try:
            with open(f"/proc/{self.pid}/task/{self.pid}/children") as f:
                return [self.pid, *map(int, f.read().split())]
        except (OSError, TypeError):
            return []

    def restart(self):
        self.down()
        return self.start()

    def stop(self):
        self.down()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *exc):
        self.stop()


def answers(conninfo):
    """Whether that PostgreSQL, or PgBouncer, takes connections."""
    import psycopg
    return psycopg.pq.PGconn.ping(conninfo.encode()) == psycopg.pq.Ping.OK


class PrivatePostgres(Server):
    stop_signal = signal.SIGINT  # fast

    def __init__(self, **settings):
        super().__init__()
        self.settings = {"max_connections": 64, **settings}
        self.conninfo = f"host={self.dir} user=seckill dbname=postgres"

    def make(self, seckillctl=None):
        """Before start(): its cluster, with our schema if there is a seckillctl."""
        subprocess.run([*as_postgres(self.dir), f"{SUPPORT}/pg_cluster.sh", f"{self.dir}/data", *filter(None, [seckillctl])], check=True)

    def command(self):
        if not os.path.exists(f"{self.dir}/data"):
            self.make()
        options = [word for k, v in self.settings.items() for word in ("-c", f"{k}={v}")]
        return [*as_postgres(self.dir), f"{PG_BIN}/postgres", "-D", f"{self.dir}/data", "-c", "listen_addresses=",
                "-c", f"unix_socket_directories={self.dir}", *options]

    def ready(self):
        return answers(self.conninfo)

    def kill(self):
        """kill -9. It starts again only when its children have noticed."""
        mine = self.processes()
        super().kill()
        wait_for("its processes to end", lambda: not any(map(_alive, mine)))

    def stop_immediately(self):
        """As after a power cut, but with all its processes gone."""
        os.kill(self.pid, signal.SIGQUIT)
        self.await_exit()

    def connect(self, **options):
        import psycopg
        return psycopg.connect(self.conninfo, autocommit=True, prepare_threshold=None, **options)

    def follow(self, primary):
        """Before start(): a copy of the primary that runs, which follows it from then on, asynchronously."""
        subprocess.run([*as_postgres(self.dir), f"{PG_BIN}/pg_basebackup", "-h", primary.dir, "-U", "seckill", "-D",
                        f"{self.dir}/data", "-R", "-X", "stream", "-c", "fast", "--no-sync"], check=True, stdout=subprocess.DEVNULL)
        return self

    def cut_off(self):
        """A standby receives nothing more of its primary."""
        with self.connect() as c:
            c.execute("ALTER SYSTEM SET primary_conninfo = ''")
            c.execute("SELECT pg_reload_conf()")
            wait_for("the receiver to end", lambda: c.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone()[0] == 0)

    def promote(self):
        with self.connect() as c:
            assert c.execute("SELECT pg_promote()").fetchone()[0]

    def load_schema(self):
        """The files of sql/, without the migrator's bookkeeping (that is seckillctl migrate's)."""
        with self.connect() as c:
            for path in sorted(glob.glob(f"{SOURCE}/sql/[0-9]*.sql")):
                c.execute(open(path).read())
        return self


class PrivateBouncer(Server):
    """PgBouncer in transaction mode before a PrivatePostgres."""

    stop_signal = signal.SIGINT

    def __init__(self, postgres, **settings):
        super().__init__()
        self.postgres = postgres
        self.settings = {"pool_mode": "transaction", "auth_type": "any", "listen_addr": "", "default_pool_size": 4,
                         "unix_socket_dir": self.dir, "listen_port": 6432, "max_client_conn": 200, **settings}
        self.conninfo = f"host={self.dir} port=6432 user=seckill dbname=postgres"

    def command(self):
        with open(f"{self.dir}/ini", "w") as f:
            f.write(f"[databases]\npostgres = host={self.postgres.dir} user=seckill\n[pgbouncer]\n")
            f.writelines(f"{k} = {v}\n" for k, v in self.settings.items())
        return [*as_postgres(self.dir), "/usr/sbin/pgbouncer", f"{self.dir}/ini"]

    def ready(self):
        return answers(self.conninfo)


class PrivateRedis(Server):
    """Durable as production's: AOF always, no eviction."""

    def __init__(self, **settings):
        super().__init__()
        self.socket = f"{self.dir}/redis.sock"
        self.url = f"unix://{self.socket}"  # ours and redis-py's
        self.settings = {"appendonly": "yes", "appendfsync": "always", "save": "", "maxmemory-policy": "noeviction",
                         "enable-debug-command": "local", **settings}

    def command(self):
        options = [word for k, v in self.settings.items() for word in (f"--{k}", str(v))]
        return ["redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", self.dir, *options]

    def connect(self, **options):
        import redis
        return redis.Redis(unix_socket_path=self.socket, **options)

    def ready(self):
        import redis
        try:
            return self.connect().ping()
        except redis.RedisError:
            return False


@pytest.fixture(scope="session")
def postgres():
    with PrivatePostgres() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server():
    with PrivateRedis() as server:
        yield server
