-- Redis lost or rolled back (rules 33–37; architecture 7, "rebuild"; docs/decisions/0021). An attempt at a rebuild is an
-- epoch: taken by compare-and-set, and each step that carries an older one is refused (rule 35). An attempt that died is
-- not gone on with, but followed by the next.

ALTER TABLE seckill_inventory
    ADD COLUMN lost_after TIMESTAMPTZ, -- rule 37: from then on what the last rebuild did not find is lost; NULL: never rebuilt
    ADD COLUMN rebuild_asked_at TIMESTAMPTZ; -- by an operator; the next attempt clears it
ALTER TABLE activities ADD COLUMN paused_at TIMESTAMPTZ; -- by an operator: a rebuild must not open what was paused

CREATE TABLE rebuilds (
    activity_id BIGINT NOT NULL,
    sku_id      BIGINT NOT NULL,
    epoch       BIGINT NOT NULL,
    started_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    beat_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    finished_at TIMESTAMPTZ, -- NULL, and the item's epoch is another: this attempt was given up
    total       INTEGER,
    ordered     INTEGER, -- active orders
    live        INTEGER, -- reservations without an outcome
    life        TEXT COLLATE "C" NOT NULL, -- of the worker (worker_lives)
    reason      VARCHAR(24) COLLATE "C" NOT NULL,
    PRIMARY KEY (activity_id, sku_id, epoch)
);

-- Who holds a unit, at one instant: the active orders, and the reservations that survived. The latter stay after the
-- rebuild, for rule 37.
CREATE TABLE rebuild_holds (
    activity_id    BIGINT NOT NULL,
    sku_id         BIGINT NOT NULL,
    epoch          BIGINT NOT NULL,
    reservation_id UUID NOT NULL,
    message_id     UUID NOT NULL,
    request_id     UUID NOT NULL,
    user_id        BIGINT NOT NULL,
    order_id       BIGINT NOT NULL,
    created_ms     BIGINT NOT NULL,
    ordered        BOOLEAN NOT NULL,
    PRIMARY KEY (activity_id, sku_id, epoch, reservation_id)
);

-- The item's attempt, alive: false when another epoch took over.
CREATE FUNCTION seckill_rebuild_beat(p_activity bigint, p_sku bigint, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
BEGIN
    UPDATE rebuilds r SET beat_at = clock_timestamp()
    WHERE r.activity_id = p_activity AND r.sku_id = p_sku AND r.epoch = p_epoch AND r.finished_at IS NULL
    AND p_epoch = (SELECT i.epoch FROM seckill_inventory i WHERE i.activity_id = p_activity AND i.sku_id = p_sku);
    RETURN FOUND;
END
$$;

-- Begins an attempt: the compare-and-set of rule 35. result: TAKEN; MOVED: the epoch is another by now; BUSY: somebody
-- is at it, whose last sign of life is younger than three seconds. What an attempt that died had kept comes along: it may
-- have emptied `pending` already.
CREATE FUNCTION seckill_rebuild_take(
    p_activity bigint, p_sku bigint, p_from bigint, p_life text, p_reason text, p_max_hold_ms bigint)
RETURNS TABLE (result text, epoch bigint, total bigint, starts_ms bigint, ends_ms bigint, expires_ms bigint, state text)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v_epoch constant bigint := p_from + 1;
    v_total bigint;
    v_before rebuilds;
BEGIN
    SELECT i.total_stock INTO v_total FROM seckill_inventory i
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku AND i.epoch = p_from AND i.warmed_at IS NOT NULL
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'MOVED', 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '';
        RETURN;
    END IF;
    v_now := clock_timestamp();
    SELECT r.* INTO v_before FROM rebuilds r
    WHERE r.activity_id = p_activity AND r.sku_id = p_sku AND r.epoch = p_from AND r.finished_at IS NULL;
    IF FOUND AND v_before.life <> p_life AND v_before.beat_at > v_now - interval '3 seconds' THEN
        RETURN QUERY SELECT 'BUSY', 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '';
        RETURN;
    END IF;
    UPDATE seckill_inventory i SET epoch = v_epoch, seq = 0, epoch_at = v_now, version = i.version + 1, updated_at = v_now,
        lost_after = v_now + p_max_hold_ms * interval '1 millisecond', rebuild_asked_at = NULL
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku;
    INSERT INTO rebuilds (activity_id, sku_id, epoch, started_at, beat_at, life, reason)
    VALUES (p_activity, p_sku, v_epoch, v_now, v_now, p_life, left(p_reason, 24));
    IF v_before.epoch IS NOT NULL THEN
        UPDATE rebuild_holds h SET epoch = v_epoch
        WHERE h.activity_id = p_activity AND h.sku_id = p_sku AND h.epoch = p_from AND NOT h.ordered;
    END IF;
    RETURN QUERY
    SELECT 'TAKEN', v_epoch, v_total, (extract(epoch FROM a.starts_at) * 1000)::bigint,
        (extract(epoch FROM a.ends_at) * 1000)::bigint, (extract(epoch FROM a.expires_at) * 1000)::bigint,
        CASE WHEN a.closed_at IS NOT NULL THEN 'CLOSED' WHEN a.opened_at IS NULL OR a.paused_at IS NOT NULL THEN 'PAUSED'
            ELSE 'OPEN' END
    FROM activities a WHERE a.activity_id = p_activity AND a.sku_id = p_sku;
END
$$;

-- Keeps reservations that wait in Redis, before anything there is emptied. false: refused.
CREATE FUNCTION seckill_rebuild_keep(
    p_activity bigint, p_sku bigint, p_epoch bigint, p_reservation uuid[], p_message uuid[], p_request uuid[],
    p_user bigint[], p_order bigint[], p_created_ms bigint[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
BEGIN
    IF NOT seckill_rebuild_beat(p_activity, p_sku, p_epoch) THEN
        RETURN false;
    END IF;
    INSERT INTO rebuild_holds (activity_id, sku_id, epoch, reservation_id, message_id, request_id, user_id, order_id,
        created_ms, ordered)
    SELECT p_activity, p_sku, p_epoch, m.reservation_id, m.message_id, m.request_id, m.user_id, m.order_id, m.created_ms, false
    FROM unnest(p_reservation, p_message, p_request, p_user, p_order, p_created_ms)
        AS m (reservation_id, message_id, request_id, user_id, order_id, created_ms)
    ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;

-- Rule 36, the count. Under the inventory lock no order can come or go; what comes after it finds Redis closed for settling
-- (rule 2), and is settled when it is open again. No row: refused. Again: counted anew.
--
-- A kept reservation does not survive when the inbox has decided on it, or when its key has an order: it will end with
-- that one, and its own unit is not taken (rule 19). Quarantined is not decided: its unit stays held (rule 25).
CREATE FUNCTION seckill_rebuild_count(p_activity bigint, p_sku bigint, p_epoch bigint)
RETURNS TABLE (total bigint, ordered bigint, live bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_total bigint;
    v_ordered bigint;
    v_live bigint;
BEGIN
    SELECT i.total_stock INTO v_total FROM seckill_inventory i
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku AND i.epoch = p_epoch FOR NO KEY UPDATE;
    IF NOT FOUND OR NOT seckill_rebuild_beat(p_activity, p_sku, p_epoch) THEN
        RETURN;
    END IF;
    DELETE FROM rebuild_holds h
    WHERE h.activity_id = p_activity AND h.sku_id = p_sku AND h.epoch = p_epoch
    AND (h.ordered
        OR EXISTS (SELECT 1 FROM consumer_inbox c WHERE c.consumer_group = 'seckill-order-create-v1'
            AND c.message_id = h.message_id AND c.status <> 'QUARANTINED')
        OR EXISTS (SELECT 1 FROM orders o WHERE o.user_id = h.user_id AND o.request_id = h.request_id));
    SELECT count(*) INTO v_live FROM rebuild_holds h
    WHERE h.activity_id = p_activity AND h.sku_id = p_sku AND h.epoch = p_epoch;
    INSERT INTO rebuild_holds (activity_id, sku_id, epoch, reservation_id, message_id, request_id, user_id, order_id,
        created_ms, ordered)
    SELECT o.activity_id, o.sku_id, p_epoch, o.reservation_id, o.message_id, o.request_id, o.user_id, o.order_id,
        (extract(epoch FROM o.reserved_at) * 1000)::bigint, true
    FROM orders o
    WHERE o.activity_id = p_activity AND o.sku_id = p_sku AND o.status IN ('CREATED', 'PAYING', 'PAID');
    GET DIAGNOSTICS v_ordered = ROW_COUNT;
    UPDATE rebuilds r SET total = v_total, ordered = v_ordered, live = v_live, beat_at = clock_timestamp()
    WHERE r.activity_id = p_activity AND r.sku_id = p_sku AND r.epoch = p_epoch;
    RETURN QUERY SELECT v_total, v_ordered, v_live;
END
$$;

-- A page of those who hold a unit, by reservation_id. No row: that was all, or refused; the caller knows how many there are.
CREATE FUNCTION seckill_rebuild_page(p_activity bigint, p_sku bigint, p_epoch bigint, p_after uuid, p_max integer)
RETURNS SETOF rebuild_holds
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    IF NOT seckill_rebuild_beat(p_activity, p_sku, p_epoch) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT * FROM rebuild_holds h
    WHERE h.activity_id = p_activity AND h.sku_id = p_sku AND h.epoch = p_epoch AND h.reservation_id > p_after
    ORDER BY h.activity_id, h.sku_id, h.epoch, h.reservation_id LIMIT p_max;
END
$$;

-- All rows of the item since it was warmed are to be settled again: what Redis has forgotten of them (rule 36). In steps of so many
-- ids, not by "id > last" over what is still coming: rows that commit later are unsettled by themselves. Where the next step
-- begins; 0: that was all; -1: refused.
CREATE FUNCTION seckill_rebuild_resettle(p_activity bigint, p_sku bigint, p_epoch bigint, p_from bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    c_step constant bigint := 20000;
    v_first bigint;
    v_warmed timestamptz;
BEGIN
    IF NOT seckill_rebuild_beat(p_activity, p_sku, p_epoch) THEN
        RETURN -1;
    END IF;
    SELECT min(o.outbox_id) INTO v_first FROM outbox o WHERE o.outbox_id >= p_from;
    IF v_first IS NULL THEN
        RETURN 0;
    END IF;
    SELECT i.warmed_at INTO v_warmed FROM seckill_inventory i WHERE i.activity_id = p_activity AND i.sku_id = p_sku;
    UPDATE outbox o SET settled_at = NULL, claimed_at = NULL
    WHERE o.outbox_id >= v_first AND o.outbox_id < v_first + c_step AND o.activity_id = p_activity AND o.sku_id = p_sku
    AND o.created_at >= v_warmed AND o.settled_at IS NOT NULL;
    RETURN v_first + c_step;
END
$$;

-- Redis is open again. false: refused. Again: true.
CREATE FUNCTION seckill_rebuild_finish(p_activity bigint, p_sku bigint, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
BEGIN
    PERFORM 1 FROM seckill_inventory i
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku AND i.epoch = p_epoch FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE rebuilds r SET finished_at = clock_timestamp()
    WHERE r.activity_id = p_activity AND r.sku_id = p_sku AND r.epoch = p_epoch AND r.finished_at IS NULL;
    DELETE FROM rebuild_holds h
    WHERE h.activity_id = p_activity AND h.sku_id = p_sku AND (h.epoch < p_epoch OR h.epoch = p_epoch AND h.ordered);
    -- And what is left of items that are over: few rows, and nobody else takes them.
    DELETE FROM rebuild_holds h USING activities a
    WHERE a.activity_id = h.activity_id AND a.sku_id = h.sku_id AND a.expires_at < clock_timestamp() - interval '1 day';
    RETURN true;
END
$$;

-- Rule 37, the second half: messages of an older epoch that have neither an inbox row nor a surviving reservation are void.
CREATE FUNCTION seckill_void_lost(
    p_activity bigint, p_sku bigint, p_epoch bigint, p_message uuid[], p_request uuid[], p_reservation uuid[],
    p_user bigint[], p_order bigint[], p_of bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    m record;
BEGIN
    FOR m IN
        SELECT u.* FROM unnest(p_message, p_request, p_reservation, p_user, p_order, p_of)
            AS u (message_id, request_id, reservation_id, user_id, order_id, of_epoch)
        WHERE u.of_epoch < p_epoch
        AND NOT EXISTS (SELECT 1 FROM consumer_inbox c
            WHERE c.consumer_group = 'seckill-order-create-v1' AND c.message_id = u.message_id)
        AND NOT EXISTS (SELECT 1 FROM rebuild_holds h WHERE h.activity_id = p_activity AND h.sku_id = p_sku
            AND h.epoch = p_epoch AND h.reservation_id = u.reservation_id)
        ORDER BY u.message_id
    LOOP
        PERFORM seckill_void(p_activity, p_sku, m.message_id, m.request_id, m.reservation_id, m.user_id, m.order_id,
            'LOST_RESERVATION');
    END LOOP;
END
$$;

-- The order function as before (0002), but that it voids what is lost, and that the item's seq is only raised by messages of
-- the epoch that the item still has.

CREATE OR REPLACE FUNCTION seckill_place(
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
    v_lost_after timestamptz;
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

    SELECT total_stock - sold_stock, epoch, lost_after INTO v_free, v_epoch, v_lost_after FROM seckill_inventory
    WHERE activity_id = p_activity AND sku_id = p_sku;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'item %:% is not in seckill_inventory', p_activity, p_sku USING ERRCODE = 'SK002';
    END IF;

    -- Rule 37: what a rebuild did not find again may have been told as lost by now, and makes no order any more.
    IF v_lost_after <= v_now AND v_epoch > ANY (p_epoch) THEN
        PERFORM seckill_void_lost(p_activity, p_sku, v_epoch, p_message, p_request, p_reservation, p_user, p_order, p_epoch);
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
        UPDATE seckill_inventory SET sold_stock = sold_stock + c_n, version = version + 1,
            seq = CASE WHEN epoch = v_epoch THEN GREATEST(seq, v_seq) ELSE seq END, updated_at = v_now
        WHERE activity_id = p_activity AND sku_id = p_sku AND sold_stock + c_n <= total_stock;
        IF NOT FOUND THEN
            SELECT total_stock - sold_stock INTO STRICT v_free FROM seckill_inventory
            WHERE activity_id = p_activity AND sku_id = p_sku FOR NO KEY UPDATE;
            v_admitted := LEAST(c_n, GREATEST(v_free, 0));
            UPDATE seckill_inventory SET sold_stock = sold_stock + v_admitted, version = version + 1,
                seq = CASE WHEN epoch = v_epoch THEN GREATEST(seq, v_seq) ELSE seq END, updated_at = v_now
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
