"""A RocketMQ of the test's own (scripts/rocketmq), and what an operator or a fault would do to it. A start costs two
cores 6 s or more: share one in a suite, and let each test have its own topics and groups.

    with PrivateRocketmq(fast=True) as mq:
        mq.topic("t1"), mq.group("g1:3")
        mq.kill(), mq.again()            # the broker, with what it had confirmed

At most two run at a time under CTest: tests that use it have the RESOURCE_LOCK rocketmq, or rocketmq_parts.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

from services import SOURCE, Server, wait_for

SCRIPT = f"{SOURCE}/scripts/rocketmq"
WIRE = f"{SOURCE}/scripts/rocketmq-wire"
VERSIONS = ["5.5.0", "5.3.3"] if os.environ.get("SECKILL_FULL") else ["5.5.0"]
# A start costs more than most tests: what another test of CI shows as well, on a broker that others share.
LONG = pytest.mark.skipif(not os.environ.get("SECKILL_FULL"), reason="scripts/test --full")
# What looks into the streams themselves.
ON_STREAMS = pytest.mark.skipif(os.environ.get("SECKILL_QUEUE") == "rocketmq", reason="Redis Streams only")
START_S = 120  # on a machine with much else to do


class Refused(Exception):
    """An answer that is not OK; code and text are the server's."""

    def __init__(self, told):
        super().__init__(told)
        code, _, self.text = told.partition(" ")
        self.code = int(code)


class _Part(Server):
    """One of its processes. Its end is kill -9, as an orderly one takes up to half a minute."""

    stop_signal = signal.SIGKILL

    def __init__(self, owner, name):
        super().__init__()
        self.owner, self.name = owner, name

    def command(self):
        return ["bash", "-c", 'exec "$0" >&2', f"{self.owner.dir}/bin/{self.name}"]  # the tether's pipe is not for logs

    def ready(self):
        return True

    def alive(self):
        return self.tether is not None and self.tether.poll() is None

    def log(self):
        with open(f"{self.dir}/log", encoding="utf-8", errors="replace") as f:
            return f.read()

    def terminate(self, timeout=60):
        """An orderly end."""
        os.kill(self.pid, signal.SIGTERM)
        wait_for(f"{self.name} to end", lambda: not self.alive(), timeout)
        self._ended()


class PrivateRocketmq:
    """cluster: the broker in a process of its own. auth: users; ours is access_key with secret_key_file, root's secret is in
    dir/root.secret. fast: leases from 1 s, long polls from 500 ms. TLS is on the same port, ca_file tells whom to trust.
    topics, groups: as scripts/rocketmq has them. broker, proxy: lines of broker.conf, members of rmq-proxy.json."""

    def __init__(self, version=VERSIONS[0], cluster=False, auth=False, fast=False, topics=(), groups=(), broker=None, proxy=None):
        self.dir = tempfile.mkdtemp(prefix="sk-rocketmq-", dir="/tmp")
        self.auth, self.cluster = auth, cluster
        self.options = ["--version", version, *(["--cluster"] if cluster else []), *(["--auth"] if auth else []),
                        *(["--fast"] if fast else []), *(w for t in topics for w in ("--topic", t)),
                        *(w for g in groups for w in ("--group", g)),
                        *(w for k, v in (broker or {}).items() for w in ("--broker", f"{k}={v}")),
                        *(w for k, v in (proxy or {}).items() for w in ("--proxy", f"{k}={json.dumps(v)}"))]
        self.namesrv_part, self.proxy_part = _Part(self, "namesrv"), _Part(self, "proxy")
        self.broker_part = _Part(self, "broker") if cluster else self.proxy_part
        self.parts = list(dict.fromkeys((self.namesrv_part, self.broker_part, self.proxy_part)))
        self.others = []  # SecondBroker

    def script(self, command, *args, timeout=START_S + 60):
        done = subprocess.run([SCRIPT, command, "--dir", self.dir, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout)
        assert done.returncode == 0, f"scripts/rocketmq {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _prepare(self, *more):
        self.script("prepare", *self.options, *more, timeout=600)
        told = dict(re.findall(r"^export SECKILL_ROCKETMQ_(\w+)=(.*)$", open(f"{self.dir}/env").read(), re.M))
        told = {k: v.strip("'").replace("\\", "") for k, v in told.items()}
        self.endpoints, self.namesrv, self.broker = told["ENDPOINTS"], told["NAMESRV"], told["BROKER"]
        self.access_key, self.secret_key_file, self.ca_file = told["ACCESS_KEY"], told["SECRET_KEY_FILE"], told["CERTIFICATE"]
        self.default_topic, self.default_group, self.dead_group = told["TOPIC"], told["GROUP"], told["DEAD_GROUP"]

    def _await(self, *more):
        waiting = subprocess.Popen([SCRIPT, "ready", "--dir", self.dir, "--timeout", str(START_S), *more], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def known():
            for part in self.parts:
                if part.tether and not part.alive():
                    waiting.terminate()
                    raise RuntimeError(f"{part.name} ended: {part.log()[-3000:]}")
            return waiting.poll() is not None
        try:
            wait_for("RocketMQ", known, START_S + 30)
        finally:
            told = waiting.communicate()[0]
        assert waiting.returncode == 0, told

    # --- its life

    def start(self):
        if not os.path.exists(f"{self.dir}/env"):
            self._prepare()
        return self.again()

    def again(self):
        """Starts what does not run: the same ports, the same messages."""
        for part in self.parts:
            if part is self.proxy_part and self.cluster:
                self._await("--broker-only")
            if not part.alive():
                part.start()
        self._await()
        return self

    def kill(self):
        """kill -9 of the broker; in LOCAL mode the proxy goes with it."""
        self.broker_part.kill()

    def kill_proxy(self):
        self.proxy_part.kill()

    def restart_proxy(self):
        """An orderly one; in LOCAL mode the broker's too."""
        self.proxy_part.terminate()
        return self.again()

    def freeze(self):
        """SIGSTOP of the broker: connections stay, nothing is answered."""
        os.kill(self.broker_part.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.broker_part.pid, signal.SIGCONT)

    def wipe(self):
        """The broker is back without anything it ever stored, its consumers' offsets included."""
        for part in self.parts:
            if part.alive():
                part.kill()
        self._prepare("--wipe", "--base", self.namesrv.rpartition(":")[2])
        return self.again()

    def stop(self):
        for part in self.parts:
            part.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *exc):
        self.stop()

    # --- what an operator does

    def settings(self):
        """Of our programs."""
        found = {"queue.kind": "rocketmq", "rocketmq.endpoints": self.endpoints, "rocketmq.namesrv": self.namesrv}
        if self.auth:
            found.update({"rocketmq.access_key": self.access_key, "rocketmq.secret_key_file": self.secret_key_file})
        return found

    def topic(self, *specs):
        """NAME[:TYPE[:QUEUES]]"""
        for broker in (self, *self.others):
            broker.script("topic", *specs)

    def group(self, *specs):
        """NAME[:RETRIES]"""
        for broker in (self, *self.others):
            broker.script("group", *specs)

    def user(self, name, secret, *resources):
        """With auth: one who may publish to and receive from these (Topic:T, Group:G)."""
        self.remoting(3001, json.dumps({"username": name, "password": secret, "userType": "Normal"}), username=name)
        entries = [{"resource": r, "actions": ["Pub", "Sub", "Get"], "decision": "Allow"} for r in resources]
        if entries:
            self.remoting(3006, json.dumps({"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": entries}]}),
                          subject=f"User:{name}")

    def wire(self, *args, user="root", secret=None, timeout_s=20):
        env = dict(os.environ, SECKILL_WIRE_TIMEOUT=str(timeout_s))
        if self.auth and user:
            path = f"{self.dir}/root.secret" if user == "root" else self.secret_key_file
            env.update(ROCKETMQ_ACCESS_KEY=user, ROCKETMQ_SECRET=secret or open(path).read())
        done = subprocess.run([WIRE, *map(str, args)], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode == 1:
            raise Refused(done.stderr.strip())
        if done.returncode:
            raise ConnectionError(done.stderr.strip())
        return done.stdout

    def remoting(self, code, body="", user="root", secret=None, **fields):
        """The body of the broker's answer; Refused if that is not OK."""
        return self.wire("remoting", self.broker.rpartition(":")[2], code, *(f"{k}={v}" for k, v in fields.items()), "--", body,
                         user=user, secret=secret)

    def send(self, topic, body, **who):
        """The message id."""
        return self.wire("send", self.endpoints.rpartition(":")[2], topic, body, **who).strip()

    def lag(self, group, topic):
        """Messages that were never handed out; one that is leased or waits for its retry is not among them."""
        told = "".join(broker.remoting(208, consumerGroup=group, topic=topic) for broker in (self, *self.others))
        return sum(int(b) - int(c) for b, c in re.findall(r'"brokerOffset":(\d+),"consumerOffset":(\d+)', told))

    def oldest_ms(self, group, topic):
        """The age of the oldest of those; 0 if there is none."""
        spans = json.loads(self.remoting(303, group=group, topic=topic))["consumeTimeSpanSet"]
        return max((s["delayTime"] for s in spans if s["maxTimeStamp"] > 0), default=0)


class SecondBroker(PrivateRocketmq):
    """Another broker, b1, at the name server of one with cluster: as many queues again for each of the topics, behind the same
    proxy."""

    def __init__(self, first, **options):
        super().__init__(cluster=True, broker={"brokerName": "b1", "namesrvAddr": first.namesrv}, **options)
        self.parts = [self.broker_part]
        self.first = first
        first.others.append(self)

    def _await(self, *more):
        def known():
            assert self.broker_part.alive(), self.broker_part.log()[-3000:]
            try:
                self.remoting(25, "brokerPermission=6\n")  # "register", whenever its own turn would be
                return '"brokerName":"b1"' in self.first.wire("remoting", self.first.namesrv.rpartition(":")[2], 105,
                                                              f"topic={self.default_topic}")
            except (ConnectionError, Refused):
                return False
        wait_for("the name server to know a second broker", known, START_S)


@pytest.fixture(scope="session")
def rocketmq():
    with PrivateRocketmq(fast=True) as server:
        yield server
