"""What an audit reads beside the stores, as JSONL (docs/audit.md): what buyers sent and heard (History: `audit --history`), and
what was seen of the programs (Observed: `audit --metrics`). Both may be used from several threads."""
import json
import threading
import time
import uuid


def now_us():
    return time.time_ns() // 1000


class _Lines:
    def __init__(self, path):
        self.path = path
        self._file = open(path, "a", encoding="utf-8")
        self._lock = threading.Lock()

    def add(self, kind, at=None, **fields):
        line = json.dumps({"t": at or now_us(), "type": kind, **fields}, separators=(",", ":"))
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


class History(_Lines):
    """Of one request of one buyer: invoked, then (perhaps) answered; and its state, as often as it is asked for."""

    def _add(self, kind, item, user, key, **fields):
        self.add(kind, user=user, key=str(uuid.UUID(key)), activity=item.activity, sku=item.sku, **fields)

    def invoked(self, item, user, key):
        self._add("invoke", item, user, key)

    def answered(self, item, user, key, answer):
        """answer: a client.Answer, or the exception instead of one."""
        status = getattr(answer, "status", 0)
        kind = {200: "ok", 202: "ok", 0: "unknown", 408: "unknown", 500: "unknown", 501: "unknown", 504: "unknown"}.get(status, "fail")
        told = answer.json if status and answer.code else {}
        fields = {"code": "ACCEPTED" if kind == "ok" else answer.code} if status else {}
        fields |= {k: told[k] for k in ("order_id", "reservation_id") if told.get(k)}
        if kind == "ok":
            fields |= {"state": told["state"], "reason": told.get("reason") or ""}
        self._add(kind, item, user, key, **({"status": status} if status else {}), **fields)

    def told(self, item, user, key, since, answer):
        """The status call's answer, asked at `since` (now_us)."""
        fields = {"state": answer.json["state"], "reason": answer.json.get("reason") or ""} if answer.status == 200 else {}
        self._add("state", item, user, key, since=since, status=answer.status, **fields)


class Observed(_Lines):
    def metrics(self, program, instance, life, values, final=False):
        """values: {'name{label="x"}': number}. final: nothing is under way in it any more."""
        self.add("metrics", program=program, instance=instance, life=str(life), final=final,
                 values={k: v for k, v in values.items() if "_bucket{" not in k})

    def fault(self, what):
        self.add("fault", what=what)

    def injected(self, metric, count, what, program="", is_="equal"):
        """Somebody made happen, so often, what the metric counts. is_: equal, at_least, at_most."""
        self.add("injected", metric=metric, count=count, program=program, what=what, **{"is": is_})
