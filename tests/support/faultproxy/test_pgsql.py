"""drop_reply before a real PostgreSQL: it commits, and the client never hears of it."""
import threading

import psycopg
import pytest
from psycopg.pq import ConnStatus, ExecStatus
from services import wait_for


@pytest.fixture
def direct(postgres):
    with postgres.connect() as c:
        c.execute("DROP TABLE IF EXISTS t")
        c.execute("CREATE TABLE t (n int)")
        yield c


@pytest.fixture
def proxy(before, postgres):
    return before(f"unix:{postgres.dir}/.s.PGSQL.5432")


def connect(proxy, **options):
    # sslmode=prefer: it asks for encryption first, and is told no.
    return psycopg.connect(f"host={proxy.front.host} port={proxy.front.port} user=seckill dbname=postgres sslmode=prefer",
                           autocommit=True, prepare_threshold=None, **options)


def pipelined(c, *statements):
    """The status of each result of what is sent together, None for a Sync: no answer is read before all is sent."""
    c.pgconn.enter_pipeline_mode()
    for sql in statements:
        if sql:
            c.pgconn.send_query_params(sql.encode(), None)
        else:
            c.pgconn.pipeline_sync()
    told = []
    while len(told) < len(statements) and c.pgconn.status == ConnStatus.OK:
        if result := c.pgconn.get_result():
            told.append(result.status)
    return told


def rows(direct):
    return [n for (n,) in direct.execute("SELECT n FROM t ORDER BY n").fetchall()]


def test_passes(proxy, direct):
    with connect(proxy) as c:
        c.execute("INSERT INTO t VALUES (%s)", (1,))
        assert c.execute("SELECT repeat('x', 300000)").fetchone()[0] == "x" * 300000
        with c.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write("2\n3\n")
        with pytest.raises(psycopg.errors.DivisionByZero):
            c.execute("SELECT 1/0")
        assert c.execute("SELECT count(*) FROM t").fetchone() == (3,)
    assert proxy.faults.decisions("protocol_lost") == []


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("how", ["simple", "parameters", "prepared"])
def test_committed_but_unheard(proxy, direct, then, how):
    with connect(proxy) as c:
        if how == "prepared":
            c.execute("INSERT INTO t VALUES (%s)", (0,), prepare=True)
        drop = proxy.drop_reply("pgsql", "INSERT INTO t", then=then)
        with pytest.raises(psycopg.OperationalError):
            if how == "simple":
                c.pgconn.exec_(b"SELECT 1")
                if c.pgconn.exec_(b"INSERT INTO t VALUES (7)").status == ExecStatus.FATAL_ERROR:
                    raise psycopg.OperationalError
            else:
                c.execute("INSERT INTO t VALUES (%s)", (7,), prepare=how == "prepared")
    assert rows(direct)[-1] == 7
    assert drop.stats["matched"] == drop.stats["dropped"] == 1


def test_swallow(proxy, direct):
    drop = proxy.drop_reply("pgsql", "INSERT")
    with connect(proxy) as c:
        failed = []

        def call():
            try:
                c.execute("INSERT INTO t VALUES (1)")
            except psycopg.OperationalError as e:
                failed.append(e)

        waiting = threading.Thread(target=call)
        waiting.start()
        drop.wait_for(dropped=1)
        assert rows(direct) == [1] and not failed
        waiting.join(0.2)
        assert waiting.is_alive()  # it hears nothing
        proxy.disable()
        waiting.join(10)
        assert failed


@pytest.mark.parametrize("match", ["COMMIT", "tag:COMMIT"])
def test_commit(proxy, direct, match):
    """The transaction's own statements are heard, the end of its COMMIT is not."""
    drop = proxy.drop_reply("pgsql", match, then="close")
    with connect(proxy) as c:
        c.execute("BEGIN")
        assert c.execute("INSERT INTO t VALUES (1) RETURNING n").fetchone() == (1,)
        assert rows(direct) == []
        with pytest.raises(psycopg.OperationalError):
            c.execute("COMMIT")
    assert drop.stats["dropped"] == 1
    assert rows(direct) == [1]


def test_rollback_has_another_tag(proxy, direct):
    drop = proxy.drop_reply("pgsql", "tag:COMMIT", then="close")
    with connect(proxy) as c:
        c.execute("BEGIN")
        with pytest.raises(psycopg.errors.DivisionByZero):
            c.execute("SELECT 1/0")
        c.execute("COMMIT")  # told as ROLLBACK: nothing was committed, and the answer arrives
    assert drop.stats["matched"] == 0


def test_pipeline(proxy, direct):
    drop = proxy.drop_reply("pgsql", "INSERT INTO t VALUES (2)", then="close")
    with connect(proxy) as c:
        told = pipelined(c, "INSERT INTO t VALUES (1)", None, "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)", None)
    assert told[:2] == [ExecStatus.COMMAND_OK, ExecStatus.PIPELINE_SYNC] and set(told[2:]) <= {ExecStatus.FATAL_ERROR}
    assert drop.stats["dropped"] == 1
    wait_for("all that was sent", lambda: rows(direct) == [1, 2, 3])


def test_skipped_after_an_error_is_void(proxy, direct):
    drop = proxy.drop_reply("pgsql", "INSERT INTO t VALUES (2)", then="close")
    with connect(proxy) as c:
        told = pipelined(c, "SELECT 1/(SELECT count(*) FROM t)", "INSERT INTO t VALUES (2)", None)
        assert told == [ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED, ExecStatus.PIPELINE_SYNC]
        c.pgconn.exit_pipeline_mode()
        assert rows(direct) == []
        drop.wait_for(void=1)
        assert c.execute("SELECT 5").fetchone() == (5,)  # the connection is unharmed, the order kept
    assert drop.stats["dropped"] == 0
    assert proxy.faults.decisions("protocol_lost") == []


def test_error_replies_are_dropped_too(proxy, direct):
    drop = proxy.drop_reply("pgsql", "1/0", then="close")
    with connect(proxy) as c:
        with pytest.raises(psycopg.OperationalError):
            c.execute("SELECT 1/0")
    assert drop.stats["dropped"] == 1


def test_notices_and_notifications_answer_nothing(proxy, direct):
    drop = proxy.drop_reply("pgsql", "SELECT 42", then="close")
    with connect(proxy) as c:
        heard = []
        c.add_notify_handler(heard.append)
        c.execute("LISTEN c")
        direct.execute("NOTIFY c, 'x'")
        c.execute("DO $$ BEGIN RAISE NOTICE 'hello'; END $$")
        c.execute("SET application_name = 'other'")  # a parameter is told
        assert wait_for("the notification", lambda: c.execute("SELECT 1") and heard)[0].payload == "x"
        with pytest.raises(psycopg.OperationalError):
            c.execute("SELECT 42")
    assert drop.stats["dropped"] == 1


def test_cancel_requests_pass(proxy, direct):
    with connect(proxy) as c:
        running = threading.Thread(target=lambda: wait_for("it to run", lambda: direct.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'").fetchone()[0]) and c.cancel())
        running.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            c.execute("SELECT pg_sleep(60)")
        running.join()
