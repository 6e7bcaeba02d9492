"""The official Python client of RocketMQ as an oracle: what it makes we must understand, and the other way round. It lives
in an environment of its own (scripts/rocketmq oracle) and is run as a program.

    Oracle(mq).produce("topic", [{"body": "x", "tag": "t", "keys": "k", "properties": {"a": "b"}}])    → message ids
    Oracle(mq).consume("topic", "group", 1)   → [{"id", "body", "tag", "keys", "properties", "attempt"}], all acked

As a program, under that Python: oracle.py produce|consume with one JSON object on standard input; answers a line a message.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

SUPPORT = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(SUPPORT))


class Oracle:
    """Of a PrivateRocketmq; with other credentials than its own, if given."""

    def __init__(self, mq, access_key=None, secret=None):
        self.mq = mq
        self.access_key = mq.access_key if access_key is None else access_key
        self.secret = open(mq.secret_key_file).read() if secret is None and mq.secret_key_file else secret or ""

    def _run(self, what, timeout, **order):
        made = subprocess.run([f"{SOURCE}/scripts/rocketmq", "oracle"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=600)
        assert made.returncode == 0, made.stdout + made.stderr
        order = {"endpoints": self.mq.endpoints, "access_key": self.access_key, "secret": self.secret, **order}
        with tempfile.TemporaryDirectory(prefix="sk-oracle-", dir="/tmp") as home:  # it logs there
            done = subprocess.run([made.stdout.split()[-1], f"{SUPPORT}/oracle.py", what], input=json.dumps(order), text=True,
                                  capture_output=True, timeout=timeout + 30, env={**os.environ, "HOME": home})
        if done.returncode:
            raise RuntimeError(f"{done.stdout[-1000:]}{done.stderr[-3000:]}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def produce(self, topic, messages, timeout=60):
        return [m["id"] for m in self._run("produce", timeout, topic=topic, messages=messages)]

    def consume(self, topic, group, count, lease_s=15, ack=True, timeout=60):
        """Until it has count messages or the time is over."""
        return self._run("consume", timeout, topic=topic, group=group, count=count, lease_s=lease_s, ack=ack, seconds=timeout)


# --- under the oracle's Python

def configuration(order):
    from rocketmq import ClientConfiguration, Credentials
    credentials = Credentials(order["access_key"], order["secret"]) if order["access_key"] else Credentials()
    return ClientConfiguration(order["endpoints"], credentials)


def produce(order):
    from rocketmq import Message, Producer
    producer = Producer(configuration(order), (order["topic"],))
    producer.startup()
    for given in order["messages"]:
        message = Message()
        message.topic, message.body = order["topic"], given["body"].encode()
        if given.get("tag"):
            message.tag = given["tag"]
        if given.get("keys"):
            message.keys = given["keys"]
        for key, value in given.get("properties", {}).items():
            message.add_property(key, value)
        print(json.dumps({"id": producer.send(message).message_id}), flush=True)
    producer.shutdown()


def consume(order):
    from rocketmq import FilterExpression, SimpleConsumer
    consumer = SimpleConsumer(configuration(order), order["group"], {order["topic"]: FilterExpression()}, 5)
    consumer.startup()
    end, left = time.monotonic() + order["seconds"], order["count"]
    while left > 0 and time.monotonic() < end:
        try:
            messages = consumer.receive(min(left, 32), order["lease_s"]) or []
        except Exception as e:  # pylint: disable=broad-except
            if "50001" not in str(e):  # on a cold proxy its first receive is faster than its own settings
                raise
            time.sleep(0.2)
            continue
        for m in messages:
            if order["ack"]:
                consumer.ack(m)
            left -= 1
            print(json.dumps({"id": m.message_id, "body": m.body.decode(), "tag": m.tag, "keys": list(m.keys or []) if not isinstance(m.keys, str)
                              else m.keys.split(), "properties": dict(m.properties or {}), "attempt": m.delivery_attempt}), flush=True)
    consumer.shutdown()


if __name__ == "__main__":
    {"produce": produce, "consume": consume}[sys.argv[1]](json.load(sys.stdin))
