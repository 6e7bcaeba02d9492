"""What the tests of seckillctl stand on: a private Redis and PostgreSQL, the programs, and the command itself."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from services import PrivatePostgres, PrivateRedis, Server, wait_for  # noqa: E402

BIN = os.environ.get("SECKILL_BIN_DIR") or os.path.join(os.path.dirname(__file__), "..", "..", "..", "build", "dev", "bin")
KEY = "0123456789abcdef0123456789abcdef"


class Program(Server):
    """seckill-api or order-worker, on ports of its own choice."""

    def __init__(self, name, section, system, *flags):
        super().__init__()
        self.name, self.section, self.system, self.flags = name, section, system, flags
        self.ports = {}

    def command(self):
        try:
            os.unlink(f"{self.dir}/ports")
        except FileNotFoundError:
            pass
        return [f"{BIN}/{self.name}", "--config", self.system.config, "--ports-file", f"{self.dir}/ports",
                f"--{self.section}.admin_listen=127.0.0.1:0", *self.flags]

    def ready(self):
        import requests
        try:
            text = open(f"{self.dir}/ports").read()
            self.ports = {k: int(v) for k, v in (pair.split("=") for pair in text.split())}
            return requests.get(f"http://127.0.0.1:{self.ports['admin']}/readyz", timeout=2).status_code == 200
        except (FileNotFoundError, requests.RequestException):
            return False


class System:
    """Redis, PostgreSQL with a database of its own, and a configuration for both."""

    def __init__(self):
        self.redis = PrivateRedis()
        self.postgres = PrivatePostgres(fsync="off")
        self.dir = tempfile.mkdtemp(prefix="sk-ctl-", dir="/tmp")
        self.config = f"{self.dir}/seckill.yaml"
        self.api = Program("seckill-api", "api", self, "--api.listen=127.0.0.1:0", "--drain.endpoints=0")
        self.worker = Program("order-worker", "worker", self)

    def conninfo(self, database="sale"):
        return f"host={self.postgres.dir} user=seckill dbname={database}"

    def __enter__(self):
        try:
            self.redis.start()
            self.postgres.start()
            self.postgres.connect().execute("CREATE DATABASE sale")
            with open(f"{self.dir}/key", "w") as f:
                f.write(KEY)
            with open(self.config, "w") as f:
                f.write(f"redis:\n  url: \"{self.redis.url}\"\npg:\n  conninfo: \"{self.conninfo()}\"\n"
                        f"auth:\n  keys: \"demo=HS256:{self.dir}/key\"\n  issuer: test\n  audience: test\n")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        import shutil
        for part in (self.api, self.worker, self.redis, self.postgres):
            part.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.api.ports['api']}"

    def sql(self, statement, *args, database="sale"):
        import psycopg
        with psycopg.connect(self.conninfo(database), autocommit=True) as c:
            cursor = c.execute(statement, args or None)
            return cursor.fetchall() if cursor.description else None

    def popen(self, *words, **options):
        return subprocess.Popen([f"{BIN}/seckillctl", "--config", self.config, *map(str, words)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def ctl(self, *words, rc=0):
        """Runs a command, asserts its exit status; (what it printed, what it complained)."""
        p = self.popen(*words)
        out, err = p.communicate(timeout=120)
        assert p.returncode == rc, f"{words}: {p.returncode}\n{out}\n{err}"
        return out, err

    def json(self, *words, rc=0):
        return json.loads(self.ctl(*words, "--json", rc=rc)[0])

    def item(self, activity, stock, opened=True):
        """A new item on sale; the words that name it."""
        item = ["--activity", activity, "--sku", 2001]
        self.ctl("activity", "create", *item, "--stock", stock, "--starts", "-1s", "--ends", "+1h")
        self.ctl("stock", "warm", *item)
        if opened:
            self.ctl("activity", "open", *item)
        return item


__all__ = ["BIN", "KEY", "Program", "System", "wait_for"]
