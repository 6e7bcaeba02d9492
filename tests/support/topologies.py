"""More than one Redis: a master with its replica behind a Sentinel, and a cluster of three masters. Each stands where a
PrivateRedis does: System(redis=PrivateSentinel())."""
import itertools
import socket
import subprocess

import redis
from redis.crc import key_slot
from redis.cluster import ClusterNode, RedisCluster
from redis.sentinel import Sentinel

from services import PrivateRedis, Server, wait_for

HOST = "127.0.0.1"


def free_ports(n):
    """Of 127.0.0.1; somebody else may be faster, which start() would tell."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Node(PrivateRedis):
    """A PrivateRedis that others can reach: by TCP."""

    def __init__(self, port, **settings):
        super().__init__(**{"port": port, "bind": HOST, "repl-diskless-sync-delay": 0, **settings})
        self.port = port

    def role(self):
        try:
            return self.connect().role()[0].decode()
        except redis.ConnectionError:  # who becomes a replica closes every connection
            return None


class SentinelProcess(Server):
    def __init__(self, port, master_port):
        super().__init__()
        self.port = port
        self.configure(master_port)

    def configure(self, master_port):
        with open(f"{self.dir}/conf", "w") as f:
            f.write(f"port {self.port}\nbind {HOST}\ndir {self.dir}\nsentinel monitor sale {HOST} {master_port} 1\n"
                    "sentinel down-after-milliseconds sale 500\nsentinel failover-timeout sale 2000\n")

    def watch(self, master_port):
        """Another life that knows another master."""
        self.down()
        self.configure(master_port)
        self.start()

    def command(self):
        return ["redis-server", f"{self.dir}/conf", "--sentinel"]

    def ready(self):
        try:
            return redis.Redis(host=HOST, port=self.port).ping()
        except redis.RedisError:
            return False


class Group:
    """Servers that come and go together; of it the tests see one."""

    def __init__(self, members):
        self.members = members
        self.dir = members[0].dir

    @property
    def tether(self):
        return next((m.tether for m in self.members if m.tether), None)

    def processes(self):
        return [pid for m in self.members for pid in m.processes()]

    def stop(self):
        for m in reversed(self.members):
            m.stop()


class PrivateSentinel(Group):
    def __init__(self, **settings):
        ports = free_ports(4)
        self.nodes = [Node(ports[0], **settings), Node(ports[1], replicaof=f"{HOST} {ports[0]}", **settings)]
        self.sentinel = SentinelProcess(ports[2], ports[0])
        # One of the sentinels that a client knows is always down.
        self.url = f"redis+sentinel://{HOST}:{ports[3]},{HOST}:{ports[2]}/sale"
        super().__init__([*self.nodes, self.sentinel])

    def start(self):
        for n in self.nodes:
            n.start()
        wait_for("the replica", self.in_step)
        self.sentinel.start()  # after that: it looks for replicas at once, then every 10 s
        wait_for("the sentinel to know the replica", lambda: self.ask("SENTINEL", "REPLICAS", "sale"))
        return self

    def ask(self, *words):
        return redis.Redis(host=HOST, port=self.sentinel.port).execute_command(*words)

    def connect(self, **options):
        """A client that follows the master."""
        return Sentinel([(HOST, self.sentinel.port)]).master_for("sale", **options)

    @property
    def master(self):
        _, port = self.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "sale")
        return next(n for n in self.nodes if n.port == int(port))

    @property
    def replica(self):
        master = self.master
        return next(n for n in self.nodes if n is not master)

    def in_step(self):
        """Whether the replica has what the master has."""
        told = [n.connect().info("replication") for n in self.nodes]
        return all(t.get("connected_slaves") or t.get("master_link_status") == "up" for t in told) \
            and told[0]["master_repl_offset"] == told[1]["master_repl_offset"]

    def cut(self):
        """The replica gets nothing any more; whoever is connected to the master goes on."""
        client = self.master.connect()
        client.config_set("requirepass", "unknown")
        client.execute_command("CLIENT", "KILL", "TYPE", "replica")

    def await_other_master(self, old):
        return wait_for("the failover", lambda: (m := self.master) is not old and m.role() == "master" and m)


class PrivateCluster(Group):
    """Three masters."""

    def __init__(self, **settings):
        ports = free_ports(6)
        self.nodes = [Node(port, **{"cluster-enabled": "yes", "cluster-port": bus, "cluster-node-timeout": 2000, **settings})
                      for port, bus in zip(ports[:3], ports[3:])]
        # Not all of them: the others are found.
        self.url = f"redis+cluster://{HOST}:{ports[0]},{HOST}:{ports[1]}"
        super().__init__(self.nodes)

    def start(self):
        for n in self.nodes:
            n.start()
        self.cli("--cluster", "create", *(f"{HOST}:{n.port}" for n in self.nodes), "--cluster-yes")
        for n in self.nodes:
            wait_for("the cluster", lambda n=n: n.connect().execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        return self

    def cli(self, *words, check=True):
        done = subprocess.run(["redis-cli", *words], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f"redis-cli {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def connect(self, **options):
        return RedisCluster(startup_nodes=[ClusterNode(HOST, n.port) for n in self.nodes], **options)

    def id_of(self, node):
        return node.connect().execute_command("CLUSTER MYID").decode()

    @staticmethod
    def slot(key):
        return key_slot(key.encode())

    def activities(self):
        """For each master a sale item's activity that is on it."""
        found = {}
        for activity in itertools.count(5001):
            found.setdefault(self.owner(key_slot(f"{activity}:2001".encode())), activity)
            if len(found) == len(self.nodes):
                return found

    def owner(self, slot):
        """The node that has it."""
        client = self.nodes[0].connect()
        client.response_callbacks.pop("CLUSTER SLOTS", None)
        at = next(r[2] for r in client.execute_command("CLUSTER", "SLOTS") if r[0] <= slot <= r[1])
        return next(n for n in self.nodes if n.port == at[1])

    def begin_move(self, slot, to):
        """The slot is in motion; its keys are where they were."""
        from_ = self.owner(slot)
        to.connect().execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self.id_of(from_))
        from_.connect().execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self.id_of(to))
        return from_

    def move_keys(self, slot, from_, to):
        client = from_.connect()
        while keys := client.execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
            client.execute_command("MIGRATE", HOST, to.port, "", 0, 5000, "KEYS", *keys)

    def end_move(self, slot, to):
        for n in [to, *(n for n in self.nodes if n is not to)]:
            n.connect().execute_command("CLUSTER SETSLOT", slot, "NODE", self.id_of(to))

    def move(self, slots, to, from_):
        """Resharding, as redis-cli does it."""
        self.cli("--cluster", "reshard", f"{HOST}:{to.port}", "--cluster-from", self.id_of(from_), "--cluster-to", self.id_of(to),
                 "--cluster-slots", str(slots), "--cluster-yes")
