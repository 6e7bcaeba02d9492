-- The order function (architecture 5, "The order transaction"; rules 16–20) and how an inbox row is told.
--
-- SQLSTATEs of our own, class SK, all "own failures of the message" (rule 20):
--   SK001  a row count that cannot be (the operation is the error's constraint name)
--   SK002  an item that PostgreSQL does not know

-- Which state a reason leads to (core/verdict.c says the same).
CREATE FUNCTION seckill_state(reason text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN reason = '' THEN 'SUCCEEDED'
        WHEN reason = 'PG_STOCK_EXHAUSTED' THEN 'SOLD_OUT'
        WHEN reason IN ('ONE_USER_ONE_ORDER', 'IDEMPOTENCY_KEY_REUSED', 'ID_COLLISION') THEN 'REJECTED'
        WHEN reason IN ('CANCELLED', 'EXPIRED', 'CLOSED') THEN 'CANCELLED'
        ELSE 'FAILED' END
$$;

-- Why an order is as it is: '' while it is active.
CREATE FUNCTION seckill_order_reason(status text, closed_reason text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN status IN ('CANCELLED', 'CLOSED') THEN COALESCE(closed_reason, status) ELSE '' END
$$;

-- What an inbox row says: the verdict, whether the reservation's unit goes back to Redis, and the order that stands
-- instead of its own. An order that retention took counts as active.
CREATE VIEW inbox_verdict AS
SELECT i.consumer_group, i.message_id, i.request_id, i.reservation_id, i.user_id, i.activity_id, i.sku_id, i.order_id,
    i.status, i.processed_at,
    CASE i.status
        WHEN 'COMPLETED' THEN seckill_state(seckill_order_reason(o.status, o.closed_reason))
        WHEN 'REJECTED' THEN seckill_state(i.last_error_code)
        ELSE 'PROCESSING' END AS state,
    CASE i.status
        WHEN 'COMPLETED' THEN seckill_order_reason(o.status, o.closed_reason)
        WHEN 'REJECTED' THEN i.last_error_code::text
        ELSE '' END AS reason,
    CASE i.status
        WHEN 'COMPLETED' THEN COALESCE(o.reservation_id <> i.reservation_id OR o.status IN ('CANCELLED', 'CLOSED'), false)
        WHEN 'REJECTED' THEN i.last_error_code <> 'PG_STOCK_EXHAUSTED'
        ELSE false END AS give_back,
    CASE WHEN i.other_order_id IS NOT NULL THEN o.order_id END AS other_order_id,
    CASE WHEN i.other_order_id IS NOT NULL THEN o.reservation_id END AS other_reservation_id,
    CASE WHEN i.other_order_id IS NOT NULL THEN o.request_id END AS other_request_id
FROM consumer_inbox i
LEFT JOIN orders o ON o.order_id = COALESCE(i.other_order_id, i.order_id);

-- How one message of a batch ended. outcome: 0 created, 1 known, 2 rejected, 3 again, 4 quarantined
-- (port/orders.h, enum orders_outcome).
CREATE TYPE seckill_outcome AS (
    message_id           uuid,
    outcome              integer,
    state                text,
    reason               text,
    give_back            boolean,
    other_order_id       bigint,
    other_reservation_id uuid,
    other_request_id     uuid,
    holder_order_id      bigint, -- the order that stood in the way
    outbox_id            bigint
);

-- Places the messages of one item: parallel arrays, one element a message. Returns a row a message (ord from 1), in
-- any order; step_us (inbox, orders, finish, inventory) on the one with ord 1. When all became orders, which is nearly
-- always, one row stands for all: ord 0, and behind the four steps the outbox ids in the messages' order. Without
-- messages: no row, but an error where it could not write (rule 21).
--
-- Two ways lead to the inventory row: the plain one, in the hope that nothing is in the way (inserts that look into each
-- unique index first, and statements that tell what they did, cost a third more), and, where that hope fails, the careful
-- one over the same messages from the start.
--
-- The settings: generic plans over index lookups, whatever the statistics of a table say that was empty a second ago.
CREATE FUNCTION seckill_place(
    p_activity bigint, p_sku bigint,
    p_message uuid[], p_request uuid[], p_reservation uuid[],
    p_user bigint[], p_order bigint[], p_created_ms bigint[], p_epoch bigint[], p_seq bigint[])
RETURNS TABLE (ord integer, outcome integer, state text, reason text, give_back boolean,
    other_order_id bigint, other_reservation_id uuid, other_request_id uuid, outbox_id bigint, step_us bigint[])
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    c_group constant varchar := 'seckill-order-create-v1'; -- rule 16
    n constant integer := cardinality(p_message);
    v_now timestamptz := clock_timestamp();
    v_t timestamptz[] := ARRAY[v_now];
    v_step bigint[];
    v_free integer;
    v_epoch bigint;
    v_seq bigint; -- the highest of the batch, of the item's epoch
    v_plain boolean := false;  -- all are fresh, and orders
    v_full boolean := false;   -- nothing is free, known under the lock
    v_rows integer;
    -- the fresh messages, parallel
    f_n integer;
    f_message uuid[];
    f_request uuid[] := p_request;
    f_reservation uuid[] := p_reservation;
    f_user bigint[] := p_user;
    f_order bigint[] := p_order;
    f_created bigint[] := p_created_ms;
    f_epoch bigint[] := p_epoch;
    f_seq bigint[] := p_seq;
    -- the orders that were inserted, parallel
    c_n integer := 0;
    c_message uuid[] := '{}';
    c_request uuid[];
    c_reservation uuid[];
    c_user bigint[];
    c_order bigint[];
    c_outbox bigint[] := '{}';
    v_outbox_n integer;
    v_ledger_n integer;
    v_admitted integer;
    -- the others' outcomes
    v_known seckill_outcome[] := '{}';  -- not fresh
    v_named seckill_outcome[] := '{}';  -- fresh, and in conflict or without a place
    v_again uuid[];
    s_message uuid[];
    s_order bigint[];
    s_reservation uuid[];
    s_outbox bigint[];
BEGIN
    IF n = 0 THEN
        IF current_setting('transaction_read_only')::boolean THEN
            RAISE EXCEPTION 'the server is read-only' USING ERRCODE = 'read_only_sql_transaction';
        END IF;
        RETURN;
    END IF;

    SELECT total_stock - sold_stock, epoch INTO v_free, v_epoch FROM seckill_inventory
    WHERE activity_id = p_activity AND sku_id = p_sku;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'item %:% is not in seckill_inventory', p_activity, p_sku USING ERRCODE = 'SK002';
    END IF;

    -- The plain way: inbox by key, then orders by user (rule 17). Whoever meets another's row waits for its end; then,
    -- if that row stands, the subtransaction undoes everything.
    IF v_free > 0 THEN
        BEGIN
            INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id,
                sku_id, order_id, status, received_at, processed_at)
            SELECT c_group, m.message_id, m.request_id, m.reservation_id, m.user_id, p_activity,
                p_sku, m.order_id, 'COMPLETED', v_now, v_now
            FROM unnest(p_message, p_request, p_reservation, p_user, p_order)
                AS m (message_id, request_id, reservation_id, user_id, order_id)
            ORDER BY m.message_id;
            GET DIAGNOSTICS f_n = ROW_COUNT;
            v_t := v_t || clock_timestamp();
            INSERT INTO orders (order_id, message_id, request_id, reservation_id, activity_id, sku_id, user_id, status,
                reserved_at, created_at, updated_at)
            SELECT m.order_id, m.message_id, m.request_id, m.reservation_id, p_activity, p_sku, m.user_id, 'CREATED',
                to_timestamp(m.created_ms::float8 / 1000), v_now, v_now
            FROM unnest(p_message, p_request, p_reservation, p_user, p_order, p_created_ms)
                AS m (message_id, request_id, reservation_id, user_id, order_id, created_ms)
            ORDER BY m.user_id;
            GET DIAGNOSTICS c_n = ROW_COUNT;
            v_plain := true;
        EXCEPTION WHEN unique_violation THEN
            v_t := ARRAY[v_now];
            c_n := 0;
        END;
    END IF;
    IF v_plain THEN
        IF f_n <> n OR c_n <> n THEN
            RAISE EXCEPTION 'orders: % inbox rows, % orders of %', f_n, c_n, n USING ERRCODE = 'SK001', CONSTRAINT = 'orders';
        END IF;
        f_message := p_message;
        c_message := p_message;
        c_reservation := p_reservation;
        c_order := p_order;
        SELECT array_agg(nextval('outbox_outbox_id_seq')) INTO c_outbox FROM generate_series(1, n);
        INSERT INTO outbox (outbox_id, event_type, message_id, request_id, reservation_id, activity_id, sku_id, user_id,
            order_id, state, reason, give_back, created_at)
        OVERRIDING SYSTEM VALUE
        SELECT p.outbox_id, 'ORDER_CREATED', p.message_id, p.request_id, p.reservation_id, p_activity, p_sku, p.user_id,
            p.order_id, 'SUCCEEDED', '', false, v_now
        FROM unnest(c_outbox, p_message, p_request, p_reservation, p_user, p_order)
            AS p (outbox_id, message_id, request_id, reservation_id, user_id, order_id);
        GET DIAGNOSTICS v_outbox_n = ROW_COUNT;
        INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind, at)
        SELECT p.reservation_id, p_activity, p_sku, p.order_id, -1, 'ORDER', v_now
        FROM unnest(p_reservation, p_order) AS p (reservation_id, order_id);
        GET DIAGNOSTICS v_ledger_n = ROW_COUNT;
        IF v_outbox_n <> n OR v_ledger_n <> n THEN
            RAISE EXCEPTION 'orders: % orders, % outbox rows, % ledger rows', n, v_outbox_n, v_ledger_n
                USING ERRCODE = 'SK001', CONSTRAINT = 'outbox';
        END IF;
        v_t := v_t || clock_timestamp();
    ELSE
        -- Inbox, by key: of a message that another transaction has in hand this waits for the end. Written as completed
        -- at once; the few that end otherwise are updated below, in the same transaction.
        WITH fresh AS (
            INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id,
                sku_id, order_id, status, received_at, processed_at)
            SELECT c_group, m.message_id, m.request_id, m.reservation_id, m.user_id, p_activity,
                p_sku, m.order_id, 'COMPLETED', v_now, v_now
            FROM unnest(p_message, p_request, p_reservation, p_user, p_order) WITH ORDINALITY
                AS m (message_id, request_id, reservation_id, user_id, order_id, nth)
            ORDER BY m.message_id, m.nth
            ON CONFLICT DO NOTHING
            RETURNING message_id)
        SELECT count(*), array_agg(message_id) INTO f_n, f_message FROM fresh;

        IF f_n = n THEN
            f_message := p_message;
        ELSE
            -- The others' outcomes: a statement of its own, since the one above does not see the rows it waited for.
            SELECT COALESCE(array_agg(ROW(k.message_id,
                CASE WHEN v.status IS NULL THEN 3 WHEN v.status = 'QUARANTINED' THEN 4 ELSE 1 END,
                v.state, v.reason, v.give_back, v.other_order_id, v.other_reservation_id, v.other_request_id,
                NULL, NULL)::seckill_outcome), '{}')
            INTO v_known
            FROM (SELECT message_id FROM unnest(p_message) AS m (message_id)
                  EXCEPT SELECT message_id FROM unnest(f_message) AS f (message_id)) k
            LEFT JOIN LATERAL (SELECT * FROM inbox_verdict w
                               WHERE w.consumer_group = c_group AND w.message_id = k.message_id LIMIT 1) v ON true;

            SELECT array_agg(message_id), array_agg(request_id), array_agg(reservation_id), array_agg(user_id),
                array_agg(order_id), array_agg(created_ms), array_agg(epoch), array_agg(seq)
            INTO f_message, f_request, f_reservation, f_user, f_order, f_created, f_epoch, f_seq
            FROM (SELECT DISTINCT ON (m.message_id) m.*
                  FROM unnest(p_message, p_request, p_reservation, p_user, p_order, p_created_ms, p_epoch, p_seq)
                      WITH ORDINALITY AS m (message_id, request_id, reservation_id, user_id, order_id, created_ms, epoch, seq, nth)
                  JOIN unnest(f_message) AS f (message_id) ON f.message_id = m.message_id
                  ORDER BY m.message_id, m.nth) u;
            v_rows := COALESCE(cardinality(f_message), 0);
            IF v_rows <> f_n THEN
                RAISE EXCEPTION 'inbox: % rows for % messages', f_n, v_rows USING ERRCODE = 'SK001', CONSTRAINT = 'inbox';
            END IF;
        END IF;
        v_t := v_t || clock_timestamp();

        -- Rule 18: when it looks as if nothing were free, the row is locked to be sure. If there is something after all,
        -- the lock is given up with the subtransaction, so that the lock order (rule 17) stays: inventory last.
        IF f_n > 0 AND v_free <= 0 THEN
            BEGIN
                SELECT total_stock - sold_stock INTO STRICT v_free FROM seckill_inventory
                WHERE activity_id = p_activity AND sku_id = p_sku FOR NO KEY UPDATE;
                IF v_free > 0 THEN
                    RAISE EXCEPTION USING ERRCODE = 'SKFRE';
                END IF;
                v_full := true;
            EXCEPTION WHEN SQLSTATE 'SKFRE' THEN
                v_full := false;
            END;
        END IF;

        -- Orders, by user; of two messages of one user the earlier one. What conflicts is left out.
        IF f_n > 0 AND NOT v_full THEN
            WITH placed AS (
                INSERT INTO orders (order_id, message_id, request_id, reservation_id, activity_id, sku_id, user_id, status,
                    reserved_at, created_at, updated_at)
                SELECT m.order_id, m.message_id, m.request_id, m.reservation_id, p_activity, p_sku, m.user_id, 'CREATED',
                    to_timestamp(m.created_ms::float8 / 1000), v_now, v_now
                FROM unnest(f_message, f_request, f_reservation, f_user, f_order, f_created, f_epoch, f_seq)
                    AS m (message_id, request_id, reservation_id, user_id, order_id, created_ms, epoch, seq)
                ORDER BY m.user_id, m.epoch, m.seq, m.message_id
                ON CONFLICT DO NOTHING
                RETURNING message_id, request_id, reservation_id, user_id, order_id)
            SELECT count(*), array_agg(message_id), array_agg(request_id), array_agg(reservation_id), array_agg(user_id),
                array_agg(order_id)
            INTO c_n, c_message, c_request, c_reservation, c_user, c_order
            FROM placed;
            IF c_n <> COALESCE(cardinality(c_message), 0) THEN
                RAISE EXCEPTION 'orders: % rows of %', c_n, cardinality(c_message) USING ERRCODE = 'SK001', CONSTRAINT = 'orders';
            END IF;
            -- Outbox and ledger follow what was inserted.
            WITH told AS (
                INSERT INTO outbox (event_type, message_id, request_id, reservation_id, activity_id, sku_id, user_id,
                    order_id, state, reason, give_back, created_at)
                SELECT 'ORDER_CREATED', p.message_id, p.request_id, p.reservation_id, p_activity, p_sku, p.user_id,
                    p.order_id, 'SUCCEEDED', '', false, v_now
                FROM unnest(c_message, c_request, c_reservation, c_user, c_order)
                    AS p (message_id, request_id, reservation_id, user_id, order_id)
                RETURNING message_id, outbox_id),
            booked AS (
                INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind, at)
                SELECT p.reservation_id, p_activity, p_sku, p.order_id, -1, 'ORDER', v_now
                FROM unnest(c_reservation, c_order) AS p (reservation_id, order_id)
                RETURNING 1)
            SELECT count(*), (SELECT count(*) FROM booked), COALESCE(array_agg(message_id), '{}'), COALESCE(array_agg(outbox_id), '{}')
            INTO v_outbox_n, v_ledger_n, c_message, c_outbox
            FROM told;
            IF v_outbox_n <> c_n OR v_ledger_n <> c_n THEN
                RAISE EXCEPTION 'orders: % orders, % outbox rows, % ledger rows', c_n, v_outbox_n, v_ledger_n
                    USING ERRCODE = 'SK001', CONSTRAINT = 'outbox';
            END IF;
        END IF;
        v_t := v_t || clock_timestamp();
    END IF;

    -- Each conflict by its name, in the order of rule 19; without one and without a place: sold out.
    IF c_n < f_n THEN
        SELECT COALESCE(array_agg(ROW(m.message_id,
            CASE WHEN z.reason IS NULL THEN 3 WHEN z.completed THEN 1 ELSE 2 END,
            seckill_state(z.reason), z.reason,
            CASE WHEN z.own THEN z.closed ELSE z.reason <> 'PG_STOCK_EXHAUSTED' END,
            CASE WHEN z.told THEN z.holder END,
            CASE WHEN z.told THEN z.holder_reservation END,
            CASE WHEN z.told THEN z.holder_request END,
            z.holder, NULL)::seckill_outcome), '{}')
        INTO v_named
        FROM unnest(f_message, f_request, f_reservation, f_user, f_order)
            AS m (message_id, request_id, reservation_id, user_id, order_id)
        LEFT JOIN unnest(c_message) AS c (message_id) ON c.message_id = m.message_id
        LEFT JOIN LATERAL (SELECT o.* FROM orders o WHERE o.reservation_id = m.reservation_id LIMIT 1) r ON true
        LEFT JOIN LATERAL (SELECT o.* FROM orders o
            WHERE o.user_id = m.user_id AND o.request_id = m.request_id LIMIT 1) q ON true
        LEFT JOIN LATERAL (SELECT o.* FROM orders o
            WHERE o.activity_id = p_activity AND o.sku_id = p_sku AND o.user_id = m.user_id
            AND o.status IN ('CREATED', 'PAYING', 'PAID') LIMIT 1) a ON true
        LEFT JOIN LATERAL (SELECT o.* FROM orders o WHERE o.order_id = m.order_id LIMIT 1) d ON true
        CROSS JOIN LATERAL (SELECT * FROM (VALUES
            -- the same reservation: its outcome (another buyer's or item's is a collision)
            (1, r.order_id IS NOT NULL AND r.user_id = m.user_id AND r.activity_id = p_activity AND r.sku_id = p_sku,
             seckill_order_reason(r.status, r.closed_reason), true, true, r.order_id <> m.order_id,
             r.status IN ('CANCELLED', 'CLOSED'), r.order_id, r.reservation_id, r.request_id),
            (2, r.order_id IS NOT NULL, 'ID_COLLISION', false, false, false, false, r.order_id, r.reservation_id, r.request_id),
            -- the same key, for this item: that order stands for it, the own unit goes back
            (3, q.order_id IS NOT NULL AND q.activity_id = p_activity AND q.sku_id = p_sku,
             seckill_order_reason(q.status, q.closed_reason), true, false, true,
             false, q.order_id, q.reservation_id, q.request_id),
            (4, q.order_id IS NOT NULL, 'IDEMPOTENCY_KEY_REUSED', false, false, false, false, q.order_id, q.reservation_id, q.request_id),
            (5, a.order_id IS NOT NULL, 'ONE_USER_ONE_ORDER', false, false, true, false, a.order_id, a.reservation_id, a.request_id),
            (6, d.order_id IS NOT NULL, 'ID_COLLISION', false, false, false, false, d.order_id, d.reservation_id, d.request_id),
            (7, v_full, 'PG_STOCK_EXHAUSTED', false, false, false, false, NULL, NULL, NULL),
            -- the holder vanished
            (8, true, NULL, false, false, false, false, NULL, NULL, NULL))
            AS y (rank, applies, reason, completed, own, told, closed, holder, holder_reservation, holder_request)
            WHERE y.applies ORDER BY y.rank LIMIT 1) z
        WHERE c.message_id IS NULL;
        IF cardinality(v_named) <> f_n - c_n THEN
            RAISE EXCEPTION 'conflicts: % named of %', cardinality(v_named), f_n - c_n
                USING ERRCODE = 'SK001', CONSTRAINT = 'conflicts';
        END IF;
        v_named := seckill_place_conflicts(p_activity, p_sku, v_now, v_named, f_message, f_request, f_reservation, f_user, f_order);
    END IF;
    v_t := v_t || clock_timestamp();

    -- The inventory row, last, because it stays locked until the WAL flush. The conditional update admits all or
    -- nothing of the batch; if there is not room for all, as many as are free, the first by (epoch, seq).
    IF c_n > 0 THEN
        SELECT max(m.seq) INTO v_seq FROM unnest(f_epoch, f_seq) AS m (epoch, seq) WHERE m.epoch = v_epoch;
        UPDATE seckill_inventory SET sold_stock = sold_stock + c_n, version = version + 1, seq = GREATEST(seq, v_seq),
            updated_at = v_now
        WHERE activity_id = p_activity AND sku_id = p_sku AND sold_stock + c_n <= total_stock;
        IF NOT FOUND THEN
            SELECT total_stock - sold_stock INTO STRICT v_free FROM seckill_inventory
            WHERE activity_id = p_activity AND sku_id = p_sku FOR NO KEY UPDATE;
            v_admitted := LEAST(c_n, GREATEST(v_free, 0));
            UPDATE seckill_inventory SET sold_stock = sold_stock + v_admitted, version = version + 1,
                seq = GREATEST(seq, v_seq), updated_at = v_now
            WHERE activity_id = p_activity AND sku_id = p_sku AND v_admitted > 0;
            GET DIAGNOSTICS v_rows = ROW_COUNT;
            IF v_rows <> LEAST(v_admitted, 1) THEN
                RAISE EXCEPTION 'inventory: % rows', v_rows USING ERRCODE = 'SK001', CONSTRAINT = 'inventory';
            END IF;
            IF v_admitted < c_n THEN
                SELECT array_agg(s.message_id), array_agg(s.order_id), array_agg(s.reservation_id), array_agg(s.outbox_id)
                INTO s_message, s_order, s_reservation, s_outbox
                FROM (SELECT m.message_id, m.order_id, m.reservation_id, c.outbox_id
                      FROM unnest(f_message, f_order, f_reservation, f_epoch, f_seq)
                          AS m (message_id, order_id, reservation_id, epoch, seq)
                      JOIN unnest(c_message, c_outbox) AS c (message_id, outbox_id) ON c.message_id = m.message_id
                      ORDER BY m.epoch, m.seq, m.message_id OFFSET v_admitted) s;
                PERFORM seckill_place_surplus(s_message, s_order, s_reservation, s_outbox);
                -- Whoever stood behind one of them in this very batch has no holder any more: again.
                IF cardinality(v_named) > 0 THEN
                    SELECT array_agg(w.message_id) INTO v_again FROM unnest(v_named) w
                    WHERE w.outcome <> 3 AND w.holder_order_id = ANY (s_order);
                    IF v_again IS NOT NULL THEN
                        DELETE FROM outbox WHERE outbox_id = ANY (
                            SELECT w.outbox_id FROM unnest(v_named) w WHERE w.message_id = ANY (v_again));
                        DELETE FROM consumer_inbox WHERE consumer_group = c_group AND message_id = ANY (v_again);
                        GET DIAGNOSTICS v_rows = ROW_COUNT;
                        IF v_rows <> cardinality(v_again) THEN
                            RAISE EXCEPTION 'inbox: % rows of % taken back', v_rows, cardinality(v_again)
                                USING ERRCODE = 'SK001', CONSTRAINT = 'inbox';
                        END IF;
                        SELECT array_agg(CASE WHEN w.message_id = ANY (v_again)
                            THEN ROW(w.message_id, 3, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL)::seckill_outcome
                            ELSE ROW(w.*)::seckill_outcome END)
                        INTO v_named FROM unnest(v_named) w;
                    END IF;
                END IF;
            END IF;
        END IF;
    END IF;
    v_t := v_t || clock_timestamp();
    SELECT array_agg((extract(epoch FROM v_t[i + 1] - v_t[i]) * 1000000)::bigint ORDER BY i) INTO v_step
    FROM generate_series(1, 4) AS i;

    IF v_plain AND s_message IS NULL THEN
        ord := 0;
        outcome := 0;
        state := 'SUCCEEDED';
        reason := '';
        give_back := false;
        step_us := v_step || c_outbox;
        RETURN NEXT;
        RETURN;
    ELSE
        RETURN QUERY
        WITH ends AS (
            SELECT c.message_id, CASE WHEN s.message_id IS NULL THEN 0 ELSE 2 END AS outcome,
                CASE WHEN s.message_id IS NULL THEN 'SUCCEEDED' ELSE 'SOLD_OUT' END AS state,
                CASE WHEN s.message_id IS NULL THEN '' ELSE 'PG_STOCK_EXHAUSTED' END AS reason,
                false AS give_back, NULL::bigint AS other_order_id, NULL::uuid AS other_reservation_id,
                NULL::uuid AS other_request_id, c.outbox_id
            FROM unnest(c_message, c_outbox) AS c (message_id, outbox_id)
            LEFT JOIN unnest(s_message) AS s (message_id) ON s.message_id = c.message_id
            UNION ALL
            SELECT w.message_id, w.outcome, w.state, w.reason, w.give_back, w.other_order_id, w.other_reservation_id,
                w.other_request_id, w.outbox_id
            FROM unnest(v_named || v_known) w)
        -- A message that stands twice in the batch: the second time it is known, unless it is to be done again.
        SELECT m.nth::integer, CASE WHEN m.copy > 1 AND e.outcome IN (0, 2) THEN 1 ELSE e.outcome END, e.state, e.reason,
            e.give_back, e.other_order_id, e.other_reservation_id, e.other_request_id,
            CASE WHEN m.copy = 1 THEN e.outbox_id END, CASE WHEN m.nth = 1 THEN v_step END
        FROM (SELECT u.message_id, u.nth, row_number() OVER (PARTITION BY u.message_id ORDER BY u.nth) AS copy
              FROM unnest(p_message) WITH ORDINALITY AS u (message_id, nth)) m
        JOIN ends e ON e.message_id = m.message_id;
    END IF;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows <> n THEN
        RAISE EXCEPTION 'result: % rows of %', v_rows, n USING ERRCODE = 'SK001', CONSTRAINT = 'result';
    END IF;
END
$$;

-- Completes the inbox rows of the named ones and tells the outbox; those to be done again leave no trace. Returns them
-- with their outbox ids.
CREATE FUNCTION seckill_place_conflicts(
    p_activity bigint, p_sku bigint, p_now timestamptz, p_named seckill_outcome[],
    p_message uuid[], p_request uuid[], p_reservation uuid[], p_user bigint[], p_order bigint[])
RETURNS seckill_outcome[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    c_group constant varchar := 'seckill-order-create-v1';
    v_again uuid[];
    v_rest integer := cardinality(p_named);
    v_rows integer;
    v_message uuid[];
    v_outbox bigint[];
BEGIN
    SELECT array_agg(w.message_id) INTO v_again FROM unnest(p_named) w WHERE w.outcome = 3;
    IF v_again IS NOT NULL THEN
        v_rest := v_rest - cardinality(v_again);
        DELETE FROM consumer_inbox WHERE consumer_group = c_group AND message_id = ANY (v_again);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        IF v_rows <> cardinality(v_again) THEN
            RAISE EXCEPTION 'inbox: % rows of % taken back', v_rows, cardinality(v_again)
                USING ERRCODE = 'SK001', CONSTRAINT = 'inbox';
        END IF;
    END IF;

    UPDATE consumer_inbox i SET
        status = CASE WHEN w.outcome = 1 THEN 'COMPLETED' ELSE 'REJECTED' END,
        last_error_code = CASE WHEN w.outcome = 1 THEN NULL ELSE w.reason END,
        order_id = CASE WHEN w.outcome = 1 THEN w.holder_order_id END,
        other_order_id = w.other_order_id
    FROM unnest(p_named) w
    WHERE i.consumer_group = c_group AND i.message_id = w.message_id AND w.outcome <> 3;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows <> v_rest THEN
        RAISE EXCEPTION 'inbox: % rows of % completed', v_rows, v_rest USING ERRCODE = 'SK001', CONSTRAINT = 'inbox';
    END IF;

    WITH told AS (
        INSERT INTO outbox (event_type, message_id, request_id, reservation_id, activity_id, sku_id, user_id, order_id,
            state, reason, give_back, other_order_id, other_reservation_id, other_request_id, created_at)
        SELECT CASE WHEN w.outcome = 1 THEN 'RESERVATION_SETTLED' ELSE 'RESERVATION_REJECTED' END,
            m.message_id, m.request_id, m.reservation_id, p_activity, p_sku, m.user_id, m.order_id,
            w.state, w.reason, w.give_back, w.other_order_id, w.other_reservation_id, w.other_request_id, p_now
        FROM unnest(p_named) w
        JOIN unnest(p_message, p_request, p_reservation, p_user, p_order)
            AS m (message_id, request_id, reservation_id, user_id, order_id) ON m.message_id = w.message_id
        WHERE w.outcome <> 3
        RETURNING message_id, outbox_id)
    SELECT count(*), array_agg(message_id), array_agg(outbox_id) INTO v_rows, v_message, v_outbox FROM told;
    IF v_rows <> v_rest THEN
        RAISE EXCEPTION 'outbox: % rows of %', v_rows, v_rest USING ERRCODE = 'SK001', CONSTRAINT = 'outbox';
    END IF;

    RETURN (SELECT array_agg(ROW(w.message_id, w.outcome, w.state, w.reason, w.give_back, w.other_order_id,
                w.other_reservation_id, w.other_request_id, w.holder_order_id, t.outbox_id)::seckill_outcome)
            FROM unnest(p_named) w
            LEFT JOIN unnest(v_message, v_outbox) AS t (message_id, outbox_id) ON t.message_id = w.message_id);
END
$$;

-- Takes back the orders that found no place and rejects their messages (rule 18): in the transaction that inserted
-- them, so nobody has seen them, and the ledger is still append-only to everybody else.
CREATE FUNCTION seckill_place_surplus(
    p_message uuid[], p_order bigint[], p_reservation uuid[], p_outbox bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    n constant integer := cardinality(p_message);
    v_orders integer;
    v_ledger integer;
    v_outbox integer;
    v_inbox integer;
BEGIN
    DELETE FROM orders WHERE order_id = ANY (p_order);
    GET DIAGNOSTICS v_orders = ROW_COUNT;
    DELETE FROM stock_ledger WHERE reservation_id = ANY (p_reservation) AND delta = -1;
    GET DIAGNOSTICS v_ledger = ROW_COUNT;
    UPDATE outbox SET event_type = 'RESERVATION_REJECTED', state = 'SOLD_OUT', reason = 'PG_STOCK_EXHAUSTED'
    WHERE outbox_id = ANY (p_outbox);
    GET DIAGNOSTICS v_outbox = ROW_COUNT;
    UPDATE consumer_inbox SET status = 'REJECTED', last_error_code = 'PG_STOCK_EXHAUSTED', order_id = NULL
    WHERE consumer_group = 'seckill-order-create-v1' AND message_id = ANY (p_message);
    GET DIAGNOSTICS v_inbox = ROW_COUNT;
    IF v_orders <> n OR v_ledger <> n OR v_outbox <> n OR v_inbox <> n THEN
        RAISE EXCEPTION 'surplus of %: % orders, % ledger rows, % outbox rows, % inbox rows',
            n, v_orders, v_ledger, v_outbox, v_inbox USING ERRCODE = 'SK001', CONSTRAINT = 'surplus';
    END IF;
END
$$;
