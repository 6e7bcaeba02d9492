-- The order's life after its birth: cancel, pay, expire, and the commands that came before their order (rules 4, 17, 27,
-- 31); the item's total. Lock order as everywhere: inbox by message_id → orders by user → payments → inventory, and
-- whoever does not wait (SKIP LOCKED) may take orders in any order.

-- A command has an inbox row like an order message has (rule 16), under its own message_id. command IS NULL: a message
-- that makes an order, and only these are what inbox_verdict and the invariants of orders speak of.
ALTER TABLE consumer_inbox
    ADD COLUMN command VARCHAR(32) COLLATE "C",
    ADD COLUMN result  VARCHAR(16) COLLATE "C", -- of a command, as its function told it; why: last_error_code
    ADD CONSTRAINT ck_consumer_inbox_result CHECK (result IS NULL OR command IS NOT NULL) NOT VALID;

ALTER TABLE parked_commands ADD COLUMN claimed_at TIMESTAMPTZ; -- a worker's sweep has it in hand

-- For the sweep of the unpaid, which would otherwise read all that is paid each time. created_at is one for a whole batch
-- and only grows: the index is written at its end, and short.
CREATE INDEX idx_orders_unpaid ON orders (activity_id, sku_id, created_at) WHERE status IN ('CREATED', 'PAYING');
CREATE INDEX idx_payments_accepted ON payments (user_id, request_id) WHERE status = 'ACCEPTED';

CREATE OR REPLACE VIEW inbox_verdict AS
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
LEFT JOIN orders o ON o.order_id = COALESCE(i.other_order_id, i.order_id)
WHERE i.command IS NULL;

-- What a command is about. It is addressed by user and request, which alone authorise it; one of its two ids, or the
-- inbox, must tie the order of that request to it (of two reservations of one key the second ends with the first's
-- order, rule 19). kind:
--   ORDER    that order
--   ENDED    the reservation ended without an order; reason
--   FOREIGN  the order it names is of another buyer, request or item
--   NONE     no outcome yet
CREATE FUNCTION seckill_command_target(
    p_activity bigint, p_sku bigint, p_user bigint, p_request uuid, p_reservation uuid, p_order bigint)
RETURNS TABLE (kind text, order_id bigint, status text, reason text)
LANGUAGE sql STABLE AS $$
    SELECT k.kind, CASE WHEN k.kind = 'ORDER' THEN o.order_id END, CASE WHEN k.kind = 'ORDER' THEN o.status::text END,
        CASE k.kind WHEN 'ORDER' THEN seckill_order_reason(o.status, o.closed_reason)
            WHEN 'ENDED' THEN i.last_error_code::text ELSE '' END
    FROM (VALUES (1)) AS one (x)
    LEFT JOIN LATERAL (SELECT w.order_id, w.reservation_id, w.status, w.closed_reason FROM orders w
        WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku
        LIMIT 1) o ON true
    LEFT JOIN LATERAL (SELECT w.order_id, w.status, w.last_error_code FROM consumer_inbox w
        WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku
        AND w.command IS NULL AND w.status IN ('COMPLETED', 'REJECTED')
        AND (p_reservation IS NULL OR w.reservation_id = p_reservation)
        ORDER BY w.status = 'COMPLETED' DESC, w.processed_at DESC LIMIT 1) i ON true
    CROSS JOIN LATERAL (SELECT CASE
        WHEN o.order_id = p_order OR o.reservation_id = p_reservation OR o.order_id = i.order_id THEN 'ORDER'
        WHEN i.status = 'REJECTED' THEN 'ENDED'
        WHEN (SELECT w.order_id FROM orders w WHERE w.order_id = p_order LIMIT 1) IS NOT NULL
            OR (SELECT w.order_id FROM orders w WHERE w.reservation_id = p_reservation LIMIT 1) IS NOT NULL THEN 'FOREIGN'
        ELSE 'NONE' END) AS k (kind)
$$;

-- Inserts the inbox rows of commands; the places in the arrays of those that are new, each message once. Of a message
-- that another transaction has in hand this waits for the end.
CREATE FUNCTION seckill_command_begin(
    p_command text, p_activity bigint, p_sku bigint, p_message uuid[], p_user bigint[], p_request uuid[],
    p_reservation uuid[], p_now timestamptz)
RETURNS integer[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    c_group constant varchar := 'seckill-order-create-v1'; -- rule 16
    c_nil constant uuid := '00000000-0000-0000-0000-000000000000';
    v_fresh integer[];
BEGIN
    PERFORM 1 FROM seckill_inventory WHERE activity_id = p_activity AND sku_id = p_sku;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'item %:% is not in seckill_inventory', p_activity, p_sku USING ERRCODE = 'SK002';
    END IF;
    WITH fresh AS (
        INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, sku_id,
            status, command, received_at)
        SELECT c_group, m.message_id, m.request_id, COALESCE(m.reservation_id, c_nil), m.user_id, p_activity, p_sku,
            'PROCESSING', p_command, p_now
        FROM unnest(p_message, p_request, p_reservation, p_user) WITH ORDINALITY
            AS m (message_id, request_id, reservation_id, user_id, nth)
        ORDER BY m.message_id, m.nth
        ON CONFLICT DO NOTHING
        RETURNING message_id)
    SELECT array_agg(m.nth) INTO v_fresh
    FROM (SELECT u.message_id, min(u.nth)::integer AS nth FROM unnest(p_message) WITH ORDINALITY AS u (message_id, nth)
          GROUP BY u.message_id) m
    JOIN fresh ON fresh.message_id = m.message_id;
    RETURN COALESCE(v_fresh, '{}');
END
$$;

-- Locks the orders of these requests, by user; their ids. One that is committed only after this is not locked, and its
-- command is parked: to lock it now could close a circle.
CREATE FUNCTION seckill_command_lock(
    p_activity bigint, p_sku bigint, p_fresh integer[], p_user bigint[], p_request uuid[])
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    RETURN (SELECT COALESCE(array_agg(o.order_id), '{}')
        FROM (SELECT p_user[f.nth] AS user_id, p_request[f.nth] AS request_id FROM unnest(p_fresh) AS f (nth)
              ORDER BY 1, 2 OFFSET 0) m
        CROSS JOIN LATERAL (SELECT w.order_id FROM orders w
            WHERE w.user_id = m.user_id AND w.request_id = m.request_id AND w.activity_id = p_activity AND w.sku_id = p_sku
            LIMIT 1 FOR NO KEY UPDATE) o);
END
$$;

-- Writes down how these commands ended: parallel arrays, p_nth being places in the arrays of the call. PARKED: the command
-- waits in parked_commands and leaves no inbox row, so that the sweep finds it new; NULL: it leaves nothing. All others are
-- done, also as parked ones, in this transaction.
CREATE FUNCTION seckill_command_end(
    p_command text, p_activity bigint, p_sku bigint, p_now timestamptz,
    p_message uuid[], p_user bigint[], p_request uuid[], p_reservation uuid[], p_order bigint[], p_body bytea[],
    p_nth integer[], p_result text[], p_reason text[], p_target bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
AS $$
DECLARE
    c_group constant varchar := 'seckill-order-create-v1';
    v_open uuid[];
    v_done uuid[];
    v_rows integer;
BEGIN
    SELECT array_agg(p_message[e.nth]) FILTER (WHERE COALESCE(e.result, 'PARKED') = 'PARKED'),
        array_agg(p_message[e.nth]) FILTER (WHERE e.result <> 'PARKED')
    INTO v_open, v_done
    FROM unnest(p_nth, p_result) AS e (nth, result);
    IF v_open IS NOT NULL THEN
        DELETE FROM consumer_inbox WHERE consumer_group = c_group AND message_id = ANY (v_open);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        IF v_rows <> cardinality(v_open) THEN
            RAISE EXCEPTION 'inbox: % rows of % taken back', v_rows, cardinality(v_open)
                USING ERRCODE = 'SK001', CONSTRAINT = 'inbox';
        END IF;
        INSERT INTO parked_commands (message_id, command, activity_id, sku_id, user_id, request_id, reservation_id,
            order_id, body, parked_at)
        SELECT p_message[e.nth], p_command, p_activity, p_sku, p_user[e.nth], p_request[e.nth], p_reservation[e.nth],
            p_order[e.nth], p_body[e.nth], p_now
        FROM unnest(p_nth, p_result) AS e (nth, result)
        WHERE e.result = 'PARKED'
        ORDER BY 1
        ON CONFLICT DO NOTHING;
    END IF;
    IF v_done IS NOT NULL THEN
        UPDATE consumer_inbox i SET result = e.result, last_error_code = NULLIF(e.reason, ''), order_id = e.target,
            status = CASE WHEN e.target IS NOT NULL AND e.result IN ('CANCELLED', 'ALREADY', 'PAID') THEN 'COMPLETED'
                ELSE 'REJECTED' END,
            processed_at = p_now
        FROM unnest(p_nth, p_result, p_reason, p_target) AS e (nth, result, reason, target)
        WHERE i.consumer_group = c_group AND i.message_id = ANY (v_done) AND i.message_id = p_message[e.nth]
        AND e.result <> 'PARKED';
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        IF v_rows <> cardinality(v_done) THEN
            RAISE EXCEPTION 'inbox: % rows of % completed', v_rows, cardinality(v_done)
                USING ERRCODE = 'SK001', CONSTRAINT = 'inbox';
        END IF;
        UPDATE parked_commands SET done_at = p_now WHERE message_id = ANY (v_done) AND done_at IS NULL;
    END IF;
END
$$;

-- Ends these unpaid orders, which the caller has locked: order, outbox and ledger; the caller gives the units back.
CREATE FUNCTION seckill_end_orders(
    p_order bigint[], p_status text, p_reason text, p_kind text, p_now timestamptz)
RETURNS SETOF outbox
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    n constant integer := cardinality(p_order);
    v_orders integer;
    v_ledger integer;
    v_outbox integer;
BEGIN
    UPDATE orders SET status = p_status, closed_reason = p_reason, updated_at = p_now
    WHERE order_id = ANY (p_order) AND status IN ('CREATED', 'PAYING');
    GET DIAGNOSTICS v_orders = ROW_COUNT;
    INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, order_id, delta, kind, at)
    SELECT o.reservation_id, o.activity_id, o.sku_id, o.order_id, 1, p_kind, p_now FROM orders o
    WHERE o.order_id = ANY (p_order);
    GET DIAGNOSTICS v_ledger = ROW_COUNT;
    RETURN QUERY INSERT INTO outbox AS b (event_type, message_id, request_id, reservation_id, activity_id, sku_id, user_id,
        order_id, state, reason, give_back, created_at)
    SELECT 'ORDER_CANCELLED', o.message_id, o.request_id, o.reservation_id, o.activity_id, o.sku_id, o.user_id,
        o.order_id, seckill_state(p_reason), p_reason, true, p_now FROM orders o
    WHERE o.order_id = ANY (p_order)
    RETURNING b.*;
    GET DIAGNOSTICS v_outbox = ROW_COUNT;
    IF v_orders <> n OR v_ledger <> n OR v_outbox <> n THEN
        RAISE EXCEPTION 'end of %: % orders, % ledger rows, % outbox rows', n, v_orders, v_ledger, v_outbox
            USING ERRCODE = 'SK001', CONSTRAINT = 'end';
    END IF;
END
$$;

-- Last, because the row stays locked until the WAL flush.
CREATE FUNCTION seckill_give_back(p_activity bigint, p_sku bigint, p_n integer, p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    v_rows integer;
BEGIN
    UPDATE seckill_inventory SET sold_stock = sold_stock - p_n, version = version + 1, updated_at = p_now
    WHERE activity_id = p_activity AND sku_id = p_sku;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows <> 1 THEN
        RAISE EXCEPTION 'inventory: % rows', v_rows USING ERRCODE = 'SK001', CONSTRAINT = 'inventory';
    END IF;
END
$$;

-- Cancels the orders of one item's commands: parallel arrays, one element a command; a reservation that is not known is
-- NULL or the nil UUID. A row a command (ord from 1), in any order. result:
--   CANCELLED    the order is cancelled, its unit is free
--   ALREADY      it was over before: reason says how
--   REFUSED      PAID: it stays (rule 27); FOREIGN: not the buyer's, or the message_id was another command's
--   NOTHING      the reservation ended without an order: reason says how; NO_OUTCOME: given up
--   PARKED       there is no outcome yet (rule 27)
--   AGAIN        its row vanished meanwhile: once more
--   QUARANTINED  the inbox says so: leave it (rule 25)
-- fresh: decided by this call. A repeated command tells what the first was told. outbox_id: to be settled now, with the
-- order's own reservation_id. p_give_up: what has no outcome is not parked (any more), but over.
CREATE FUNCTION seckill_cancel(
    p_activity bigint, p_sku bigint,
    p_message uuid[], p_user bigint[], p_request uuid[], p_reservation uuid[], p_order bigint[], p_body bytea[],
    p_give_up boolean DEFAULT false)
RETURNS TABLE (ord integer, result text, reason text, fresh boolean, order_id bigint, reservation_id uuid, outbox_id bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    c_command constant varchar := 'ORDER_CANCEL_REQUESTED';
    c_group constant varchar := 'seckill-order-create-v1';
    c_nil constant uuid := '00000000-0000-0000-0000-000000000000';
    n constant integer := cardinality(p_message);
    v_now timestamptz := clock_timestamp();
    v_reservation uuid[] := array_replace(p_reservation, c_nil, NULL);
    v_fresh integer[];
    v_locked bigint[];
    v_nth integer[];
    v_result text[];
    v_reason text[];
    v_target bigint[];
    v_act bigint[];
    v_parked uuid[];
    c_order bigint[];
    c_reservation uuid[];
    c_outbox bigint[];
    v_rows integer;
BEGIN
    IF n = 0 THEN
        RETURN;
    END IF;
    v_fresh := seckill_command_begin(c_command, p_activity, p_sku, p_message, p_user, p_request, v_reservation, v_now);
    IF cardinality(v_fresh) > 0 THEN
        v_locked := seckill_command_lock(p_activity, p_sku, v_fresh, p_user, p_request);
        -- A statement of its own: its snapshot is younger than the locks.
        SELECT array_agg(d.nth), array_agg(d.result), array_agg(d.reason), array_agg(d.order_id),
            array_agg(d.order_id) FILTER (WHERE d.result = 'CANCELLED'),
            array_agg(p_message[d.nth]) FILTER (WHERE d.result = 'PARKED')
        INTO v_nth, v_result, v_reason, v_target, v_act, v_parked
        FROM (SELECT u.nth, u.order_id, y.result, y.reason
              FROM (SELECT f.nth, t.*, row_number() OVER (PARTITION BY t.order_id ORDER BY f.nth) AS turn
                    FROM unnest(v_fresh) AS f (nth)
                    CROSS JOIN LATERAL seckill_command_target(p_activity, p_sku, p_user[f.nth], p_request[f.nth],
                        v_reservation[f.nth], p_order[f.nth]) t) u
              CROSS JOIN LATERAL (SELECT * FROM (VALUES
                (1, u.kind = 'ORDER' AND NOT u.order_id = ANY (v_locked), 'PARKED', ''),
                (2, u.kind = 'ORDER' AND u.status = 'PAID', 'REFUSED', 'PAID'),
                (3, u.kind = 'ORDER' AND u.status IN ('CREATED', 'PAYING') AND u.turn = 1, 'CANCELLED', ''),
                (4, u.kind = 'ORDER', 'ALREADY', COALESCE(NULLIF(u.reason, ''), 'CANCELLED')),
                (5, u.kind = 'ENDED', 'NOTHING', u.reason),
                (6, u.kind = 'FOREIGN', 'REFUSED', 'FOREIGN'),
                (7, p_give_up, 'NOTHING', 'NO_OUTCOME'),
                (8, true, 'PARKED', '')) AS z (rank, applies, result, reason)
                WHERE z.applies ORDER BY z.rank LIMIT 1) y) d;
        IF v_act IS NOT NULL THEN
            SELECT array_agg(e.order_id), array_agg(e.reservation_id), array_agg(e.outbox_id)
            INTO c_order, c_reservation, c_outbox
            FROM seckill_end_orders(v_act, 'CANCELLED', 'CANCELLED', 'CANCEL', v_now) e;
        END IF;
        PERFORM seckill_command_end(c_command, p_activity, p_sku, v_now, p_message, p_user, p_request, v_reservation,
            p_order, p_body, v_nth, v_result, v_reason, v_target);
        IF v_act IS NOT NULL THEN
            PERFORM seckill_give_back(p_activity, p_sku, cardinality(v_act), v_now);
        END IF;
    END IF;

    RETURN QUERY
    SELECT m.nth::integer,
        CASE WHEN i.message_id IS NULL THEN CASE WHEN m.message_id = ANY (v_parked) THEN 'PARKED' ELSE 'AGAIN' END
            WHEN i.status = 'QUARANTINED' THEN 'QUARANTINED'
            WHEN z.another THEN 'REFUSED' ELSE i.result::text END,
        CASE WHEN z.another THEN 'FOREIGN' ELSE COALESCE(i.last_error_code::text, '') END,
        m.nth = ANY (v_fresh),
        CASE WHEN NOT z.another THEN i.order_id END,
        CASE WHEN NOT z.another THEN c.reservation_id END,
        CASE WHEN m.nth = ANY (v_fresh) AND i.result = 'CANCELLED' THEN c.outbox_id END
    FROM unnest(p_message, p_user, p_request, v_reservation) WITH ORDINALITY
        AS m (message_id, user_id, request_id, reservation_id, nth)
    LEFT JOIN LATERAL (SELECT w.* FROM consumer_inbox w
        WHERE w.consumer_group = c_group AND w.message_id = m.message_id LIMIT 1) i ON true
    CROSS JOIN LATERAL (SELECT COALESCE(i.status <> 'QUARANTINED' AND
        (i.command, i.activity_id, i.sku_id, i.user_id, i.request_id, i.reservation_id) IS DISTINCT FROM
        (c_command, p_activity, p_sku, m.user_id, m.request_id, COALESCE(m.reservation_id, c_nil)), false)) AS z (another)
    LEFT JOIN unnest(c_order, c_reservation, c_outbox) AS c (order_id, reservation_id, outbox_id)
        ON c.order_id = i.order_id;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows <> n THEN
        RAISE EXCEPTION 'result: % rows of %', v_rows, n USING ERRCODE = 'SK001', CONSTRAINT = 'result';
    END IF;
END
$$;

-- Payments of one item, as seckill_cancel; accepted_ms by Redis time. A payment_id is one payment, whatever the messages:
-- its content is item, user, request and order. result:
--   PAID         the order is paid
--   REFUNDED     it is over, paid by another payment (ALREADY_PAID), never was, or is another's (FOREIGN): reason says;
--                a row of refunds, stock untouched
--   REFUSED      PAYMENT_ID_REUSED: the id is another payment's; this one is not recorded
--   PARKED, AGAIN, QUARANTINED as there. A parked payment is recorded as ACCEPTED: its id is taken, and expiry sees it.
-- A payment tried again may come with a later time: the earliest counts.
CREATE FUNCTION seckill_pay(
    p_activity bigint, p_sku bigint,
    p_message uuid[], p_user bigint[], p_request uuid[], p_reservation uuid[], p_order bigint[], p_body bytea[],
    p_payment text[], p_accepted_ms bigint[], p_give_up boolean DEFAULT false)
RETURNS TABLE (ord integer, result text, reason text, fresh boolean, order_id bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    c_command constant varchar := 'ORDER_PAY_REQUESTED';
    c_group constant varchar := 'seckill-order-create-v1';
    n constant integer := cardinality(p_message);
    v_now timestamptz := clock_timestamp();
    v_reservation uuid[] := array_replace(p_reservation, '00000000-0000-0000-0000-000000000000', NULL);
    v_fresh integer[];
    v_first integer[]; -- of the fresh, one a payment
    v_locked bigint[];
    -- the payments that are decided now, parallel
    v_payment text[];
    v_result text[];
    v_reason text[];
    v_act bigint[];
    v_closed integer;
    v_rows integer;
    v_refunds integer;
    -- the fresh ones' ends, parallel
    e_nth integer[];
    e_result text[];
    e_reason text[];
    e_target bigint[];
BEGIN
    IF n = 0 THEN
        RETURN;
    END IF;
    v_fresh := seckill_command_begin(c_command, p_activity, p_sku, p_message, p_user, p_request, v_reservation, v_now);
    IF cardinality(v_fresh) > 0 THEN
        v_locked := seckill_command_lock(p_activity, p_sku, v_fresh, p_user, p_request);

        SELECT array_agg(f.nth) INTO v_first
        FROM (SELECT DISTINCT ON (p_payment[u.nth]) u.nth FROM unnest(v_fresh) AS u (nth)
              ORDER BY p_payment[u.nth], u.nth) f;
        INSERT INTO payments (payment_id, order_id, activity_id, sku_id, user_id, request_id, status, accepted_at,
            created_at, updated_at)
        SELECT p_payment[f.nth], p_order[f.nth], p_activity, p_sku, p_user[f.nth], p_request[f.nth], 'ACCEPTED',
            to_timestamp(p_accepted_ms[f.nth]::float8 / 1000), v_now, v_now
        FROM unnest(v_first) AS f (nth)
        ORDER BY 1
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        IF v_rows < cardinality(v_first) THEN
            UPDATE payments p SET accepted_at = to_timestamp(p_accepted_ms[f.nth]::float8 / 1000), updated_at = v_now
            FROM unnest(v_first) AS f (nth)
            WHERE p.payment_id = p_payment[f.nth] AND p.status = 'ACCEPTED'
            AND (p.activity_id, p.sku_id, p.user_id, p.request_id, p.order_id)
                = (p_activity, p_sku, p_user[f.nth], p_request[f.nth], p_order[f.nth])
            AND p.accepted_at > to_timestamp(p_accepted_ms[f.nth]::float8 / 1000);
        END IF;

        SELECT array_agg(d.payment_id), array_agg(d.result), array_agg(d.reason),
            array_agg(d.order_id) FILTER (WHERE d.result = 'PAID')
        INTO v_payment, v_result, v_reason, v_act
        FROM (SELECT u.payment_id, u.order_id, y.result, y.reason
              FROM (SELECT p.payment_id, t.*,
                        row_number() OVER (PARTITION BY t.order_id ORDER BY p.accepted_at, p.payment_id) AS turn
                    FROM unnest(v_first) AS f (nth)
                    CROSS JOIN LATERAL (SELECT w.payment_id, w.accepted_at FROM payments w
                        WHERE w.payment_id = p_payment[f.nth] AND w.status = 'ACCEPTED'
                        AND (w.activity_id, w.sku_id, w.user_id, w.request_id, w.order_id)
                            = (p_activity, p_sku, p_user[f.nth], p_request[f.nth], p_order[f.nth]) LIMIT 1) p
                    CROSS JOIN LATERAL seckill_command_target(p_activity, p_sku, p_user[f.nth], p_request[f.nth],
                        v_reservation[f.nth], p_order[f.nth]) t) u
              CROSS JOIN LATERAL (SELECT * FROM (VALUES
                (1, u.kind = 'ORDER' AND NOT u.order_id = ANY (v_locked), 'PARKED', ''),
                (2, u.kind = 'ORDER' AND u.status IN ('CREATED', 'PAYING') AND u.turn = 1, 'PAID', ''),
                (3, u.kind = 'ORDER' AND u.status IN ('CREATED', 'PAYING', 'PAID'), 'REFUNDED', 'ALREADY_PAID'),
                (4, u.kind IN ('ORDER', 'ENDED'), 'REFUNDED', u.reason),
                (5, u.kind = 'FOREIGN', 'REFUNDED', 'FOREIGN'),
                (6, p_give_up, 'REFUNDED', 'NO_OUTCOME'),
                (7, true, 'PARKED', '')) AS z (rank, applies, result, reason)
                WHERE z.applies ORDER BY z.rank LIMIT 1) y) d;

        IF v_act IS NOT NULL THEN
            UPDATE orders SET status = 'PAID', updated_at = v_now
            WHERE order_id = ANY (v_act) AND status IN ('CREATED', 'PAYING');
            GET DIAGNOSTICS v_rows = ROW_COUNT;
            IF v_rows <> cardinality(v_act) THEN
                RAISE EXCEPTION 'orders: % rows of % paid', v_rows, cardinality(v_act)
                    USING ERRCODE = 'SK001', CONSTRAINT = 'orders';
            END IF;
        END IF;
        SELECT count(*) INTO v_closed FROM unnest(v_result) AS r (result) WHERE r.result <> 'PARKED';
        IF v_closed > 0 THEN
            UPDATE payments p SET status = CASE d.result WHEN 'PAID' THEN 'APPLIED' ELSE 'REFUNDED' END, updated_at = v_now
            FROM unnest(v_payment, v_result) AS d (payment_id, result)
            WHERE p.payment_id = d.payment_id AND d.result <> 'PARKED';
            GET DIAGNOSTICS v_rows = ROW_COUNT;
            INSERT INTO refunds (payment_id, order_id, reason, created_at)
            SELECT p.payment_id, p.order_id, d.reason, v_now
            FROM unnest(v_payment, v_result, v_reason) AS d (payment_id, result, reason)
            JOIN payments p ON p.payment_id = d.payment_id
            WHERE d.result = 'REFUNDED';
            GET DIAGNOSTICS v_refunds = ROW_COUNT;
            IF v_rows <> v_closed OR v_refunds <> v_closed - COALESCE(cardinality(v_act), 0) THEN
                RAISE EXCEPTION 'payments: % rows of %, % refunds', v_rows, v_closed, v_refunds
                    USING ERRCODE = 'SK001', CONSTRAINT = 'payments';
            END IF;
        END IF;

        -- A message ends as its payment did; one that is not that payment leaves nothing.
        SELECT array_agg(f.nth), array_agg(CASE WHEN NOT p.same THEN NULL WHEN p.status = 'APPLIED' THEN 'PAID'
                WHEN p.status = 'REFUNDED' THEN 'REFUNDED' ELSE 'PARKED' END),
            array_agg(COALESCE(r.reason::text, '')), array_agg(o.order_id)
        INTO e_nth, e_result, e_reason, e_target
        FROM unnest(v_fresh) AS f (nth)
        CROSS JOIN LATERAL (SELECT w.payment_id, w.status, (w.activity_id, w.sku_id, w.user_id, w.request_id, w.order_id)
                = (p_activity, p_sku, p_user[f.nth], p_request[f.nth], p_order[f.nth]) AS same
            FROM payments w WHERE w.payment_id = p_payment[f.nth] LIMIT 1) p
        LEFT JOIN LATERAL (SELECT w.reason FROM refunds w WHERE w.payment_id = p.payment_id LIMIT 1) r ON true
        LEFT JOIN LATERAL (SELECT w.order_id FROM orders w WHERE w.user_id = p_user[f.nth]
            AND w.request_id = p_request[f.nth] AND w.activity_id = p_activity AND w.sku_id = p_sku LIMIT 1) o ON true;
        IF COALESCE(cardinality(e_nth), 0) <> cardinality(v_fresh) THEN
            RAISE EXCEPTION 'payments: % of %', cardinality(e_nth), cardinality(v_fresh)
                USING ERRCODE = 'SK001', CONSTRAINT = 'payments';
        END IF;
        PERFORM seckill_command_end(c_command, p_activity, p_sku, v_now, p_message, p_user, p_request, v_reservation,
            p_order, p_body, e_nth, e_result, e_reason, e_target);
    END IF;

    RETURN QUERY
    SELECT m.nth::integer,
        CASE WHEN i.status = 'QUARANTINED' THEN 'QUARANTINED'
            WHEN p.payment_id IS NULL THEN CASE WHEN i.message_id IS NULL THEN 'AGAIN' ELSE 'REFUSED' END
            WHEN NOT p.same THEN 'REFUSED'
            WHEN p.status = 'APPLIED' THEN 'PAID'
            WHEN p.status = 'REFUNDED' THEN 'REFUNDED'
            WHEN i.message_id IS NULL THEN 'PARKED'
            ELSE 'AGAIN' END,
        CASE WHEN i.status = 'QUARANTINED' THEN ''
            WHEN NOT p.same OR p.payment_id IS NULL AND i.message_id IS NOT NULL THEN 'PAYMENT_ID_REUSED'
            ELSE COALESCE(r.reason::text, '') END,
        m.nth = ANY (v_fresh) AND COALESCE(p.same, false),
        CASE WHEN p.same THEN i.order_id END
    FROM unnest(p_message, p_user, p_request, p_order, p_payment) WITH ORDINALITY
        AS m (message_id, user_id, request_id, order_id, payment_id, nth)
    LEFT JOIN LATERAL (SELECT w.* FROM consumer_inbox w
        WHERE w.consumer_group = c_group AND w.message_id = m.message_id LIMIT 1) i ON true
    LEFT JOIN LATERAL (SELECT w.payment_id, w.status, (w.activity_id, w.sku_id, w.user_id, w.request_id, w.order_id)
            = (p_activity, p_sku, m.user_id, m.request_id, m.order_id) AS same
        FROM payments w WHERE w.payment_id = m.payment_id LIMIT 1) p ON true
    LEFT JOIN LATERAL (SELECT w.reason FROM refunds w WHERE w.payment_id = p.payment_id LIMIT 1) r ON true;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows <> n THEN
        RAISE EXCEPTION 'result: % rows of %', v_rows, n USING ERRCODE = 'SK001', CONSTRAINT = 'result';
    END IF;
END
$$;

-- Closes the item's unpaid orders created before that time, the oldest first, at most so many; their outbox rows. An
-- order whose payment was accepted within p_pay_within_ms of its creation, and only has not been run yet (parked), is left
-- alone (rule 31). Orders that somebody has in hand are skipped: whoever pays, cancels or expires them is at it.
CREATE FUNCTION seckill_expire(
    p_activity bigint, p_sku bigint, p_created_before_ms bigint, p_pay_within_ms bigint, p_max integer)
RETURNS SETOF outbox
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_order bigint[];
BEGIN
    SELECT array_agg(d.order_id) INTO v_order
    FROM (SELECT o.order_id FROM orders o
          WHERE o.activity_id = p_activity AND o.sku_id = p_sku AND o.status IN ('CREATED', 'PAYING')
          AND o.created_at < to_timestamp(p_created_before_ms::float8 / 1000)
          AND NOT EXISTS (SELECT 1 FROM payments p
              WHERE p.user_id = o.user_id AND p.request_id = o.request_id AND p.activity_id = o.activity_id
              AND p.sku_id = o.sku_id AND p.status = 'ACCEPTED'
              AND p.accepted_at <= o.created_at + p_pay_within_ms * interval '1 millisecond')
          ORDER BY o.created_at LIMIT p_max FOR NO KEY UPDATE OF o SKIP LOCKED) d;
    IF v_order IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM seckill_end_orders(v_order, 'CLOSED', 'EXPIRED', 'EXPIRE', v_now);
    PERFORM seckill_give_back(p_activity, p_sku, cardinality(v_order), v_now);
END
$$;

-- Parked commands whose reservation has an outcome now, and (given_up) those that have waited for p_give_up_ms without
-- one, the oldest first. They are claimed for a second, so that several workers share the work. The caller runs them
-- through the functions above with the same message_id, those given up by themselves with p_give_up; that transaction
-- notes done_at.
CREATE FUNCTION seckill_parked(p_max integer, p_give_up_ms bigint)
RETURNS TABLE (message_id uuid, command text, activity_id bigint, sku_id bigint, user_id bigint, request_id uuid,
    reservation_id uuid, order_id bigint, body bytea, given_up boolean)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT w.message_id, t.kind = 'NONE' AS given_up
        FROM parked_commands w
        CROSS JOIN LATERAL seckill_command_target(w.activity_id, w.sku_id, w.user_id, w.request_id, w.reservation_id,
            w.order_id) t
        WHERE w.done_at IS NULL AND (w.claimed_at IS NULL OR w.claimed_at < v_now - interval '1 second')
        AND (t.kind <> 'NONE' OR w.parked_at < v_now - p_give_up_ms * interval '1 millisecond')
        ORDER BY w.parked_at LIMIT p_max FOR NO KEY UPDATE OF w SKIP LOCKED),
    claimed AS (
        UPDATE parked_commands p SET claimed_at = v_now FROM found f WHERE p.message_id = f.message_id
        RETURNING p.*, f.given_up)
    SELECT c.message_id, c.command::text, c.activity_id, c.sku_id, c.user_id, c.request_id, c.reservation_id, c.order_id,
        c.body, c.given_up
    FROM claimed c ORDER BY c.parked_at, c.message_id;
END
$$;

-- The item's total, mid-sale: raised here first and then in Redis, lowered in Redis first and then here. result: CHANGED,
-- SAME, or BELOW_SOLD: refused, there are more active orders.
CREATE FUNCTION seckill_set_total(p_activity bigint, p_sku bigint, p_total integer)
RETURNS TABLE (result text, total_stock integer, sold_stock integer)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_total integer;
    v_sold integer;
BEGIN
    SELECT i.total_stock, i.sold_stock INTO v_total, v_sold FROM seckill_inventory i
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'item %:% is not in seckill_inventory', p_activity, p_sku USING ERRCODE = 'SK002';
    END IF;
    IF p_total < v_sold THEN
        RETURN QUERY SELECT 'BELOW_SOLD', v_total, v_sold;
        RETURN;
    END IF;
    IF p_total = v_total THEN
        RETURN QUERY SELECT 'SAME', v_total, v_sold;
        RETURN;
    END IF;
    INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, delta, kind, at)
    VALUES (gen_random_uuid(), p_activity, p_sku, p_total - v_total, 'TOTAL', v_now);
    UPDATE seckill_inventory i SET total_stock = p_total, version = i.version + 1, updated_at = v_now
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku;
    RETURN QUERY SELECT 'CHANGED', p_total, v_sold;
END
$$;

-- As before, and what came of the buyer's cancel: CANCELLED, ALREADY, REFUSED (rule 27: paid, the request stays
-- SUCCEEDED), NOTHING; NULL: none was run.
DROP FUNCTION seckill_find_request(bigint, bigint, bigint, uuid);
CREATE FUNCTION seckill_find_request(p_activity bigint, p_sku bigint, p_user bigint, p_request uuid)
RETURNS TABLE (message_id uuid, status text, state text, reason text, inbox_order_id bigint, give_back boolean,
    other_order_id bigint, other_reservation_id uuid, other_request_id uuid, order_id bigint, reservation_id uuid, created_ms bigint, updated_ms bigint, order_status text,
    cancel text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT i.message_id, i.status::text, i.state, i.reason, i.order_id, i.give_back,
        i.other_order_id, i.other_reservation_id, i.other_request_id, o.order_id, o.reservation_id, (extract(epoch FROM o.created_at) * 1000)::bigint,
        (extract(epoch FROM o.updated_at) * 1000)::bigint, o.status::text, c.result::text
    FROM (VALUES (1)) AS one (x)
    LEFT JOIN LATERAL (SELECT w.* FROM inbox_verdict w
        WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku
        ORDER BY w.status = 'COMPLETED' DESC, w.processed_at DESC NULLS LAST LIMIT 1) i ON true
    LEFT JOIN LATERAL (SELECT w.* FROM orders w
        WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku) o ON true
    LEFT JOIN LATERAL (SELECT w.result FROM consumer_inbox w
        WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku
        AND w.command = 'ORDER_CANCEL_REQUESTED'
        ORDER BY w.processed_at DESC NULLS LAST LIMIT 1) c ON true
    WHERE i.message_id IS NOT NULL OR o.order_id IS NOT NULL;
END
$$;
