-- Reconciliation (rule 40): who looks at an item, what PostgreSQL knows of the reservations that Redis holds, and what came
-- of it. A row of reconciliation_runs is a stretch of rounds with the same findings: started_at its first, finished_at its
-- last one's end, detail.rounds how many.

-- The worker whose turn an item is: it has seen the sample before. A lease that ends lets another begin anew.
CREATE TABLE reconcile_items (
    activity_id     BIGINT NOT NULL,
    sku_id          BIGINT NOT NULL,
    life            TEXT COLLATE "C" NOT NULL DEFAULT '',
    beat_at         TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    -- The timeline up to which every order that Redis knows was found here (failures.md 22). It travels with the data: a
    -- standby that was promoted reads an older number than its own.
    walked_timeline BIGINT NOT NULL DEFAULT 0,
    asked_at        TIMESTAMPTZ, -- an operator waits for a look (seckillctl reconcile run)
    PRIMARY KEY (activity_id, sku_id)
) WITH (fillfactor = 50);
CREATE INDEX idx_reconcile_items_asked ON reconcile_items (asked_at) WHERE asked_at IS NOT NULL;

-- The timeline that is written to. Errors where nothing can be written.
CREATE FUNCTION seckill_timeline() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
$$;

-- This life's look at an item begins: the books to compare with. No row: another's turn, or no such item.
CREATE FUNCTION seckill_reconcile_begin(p_activity bigint, p_sku bigint, p_life text, p_lease_ms bigint)
RETURNS TABLE (total_stock integer, sold_stock integer, epoch bigint, timeline bigint, walked bigint, asked boolean)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_walked bigint;
    v_asked timestamptz;
BEGIN
    INSERT INTO reconcile_items AS r (activity_id, sku_id, life, beat_at) VALUES (p_activity, p_sku, p_life, v_now)
    ON CONFLICT (activity_id, sku_id) DO UPDATE SET life = p_life, beat_at = v_now
    WHERE r.life = p_life OR r.beat_at < v_now - p_lease_ms * interval '1 millisecond'
    RETURNING r.walked_timeline, r.asked_at INTO v_walked, v_asked;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT i.total_stock, i.sold_stock, i.epoch, seckill_timeline(), v_walked, v_asked IS NOT NULL
    FROM seckill_inventory i WHERE i.activity_id = p_activity AND i.sku_id = p_sku;
END
$$;

-- An item that an operator waits for and that may be this life's turn.
CREATE FUNCTION seckill_reconcile_asked(p_life text, p_lease_ms bigint) RETURNS TABLE (activity_id bigint, sku_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT r.activity_id, r.sku_id FROM reconcile_items r
    WHERE r.asked_at IS NOT NULL
    AND (r.life = p_life OR r.beat_at < clock_timestamp() - p_lease_ms * interval '1 millisecond')
    ORDER BY r.asked_at LIMIT 1
$$;

-- What is known of reservations that Redis holds, by their messages: as seckill_inbox, and the status of the order with that
-- reservation, whether Redis has yet to hear of something, and what the ledger says of its unit (-1 taken, 0 given back).
CREATE FUNCTION seckill_reconcile_look(p_message uuid[], p_reservation uuid[])
RETURNS TABLE (ord integer, found boolean, status text, state text, reason text, order_id bigint, give_back boolean,
    other_order_id bigint, other_reservation_id uuid, other_request_id uuid,
    order_status text, unsettled boolean, ledger bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_unsettled uuid[];
BEGIN
    -- Once for all of them: what is unsettled is little, and has an index of its own.
    SELECT array_agg(b.message_id) INTO v_unsettled FROM outbox b
    WHERE b.settled_at IS NULL AND b.message_id = ANY (p_message);
    RETURN QUERY
    SELECT m.nth::integer, i.message_id IS NOT NULL, i.status::text, i.state, i.reason, i.order_id, i.give_back,
        i.other_order_id, i.other_reservation_id, i.other_request_id,
        o.status::text, COALESCE(m.message_id = ANY (v_unsettled), false), l.net
    FROM unnest(p_message, p_reservation) WITH ORDINALITY AS m (message_id, reservation_id, nth)
    LEFT JOIN LATERAL (SELECT w.* FROM inbox_verdict w
        WHERE w.consumer_group = 'seckill-order-create-v1' AND w.message_id = m.message_id LIMIT 1) i ON true
    LEFT JOIN LATERAL (SELECT w.status FROM orders w WHERE w.reservation_id = m.reservation_id LIMIT 1) o ON true
    LEFT JOIN LATERAL (SELECT COALESCE(sum(w.delta), 0) AS net FROM stock_ledger w
        WHERE w.reservation_id = m.reservation_id) l ON true;
END
$$;

-- The item's active orders, by user, after that one.
CREATE FUNCTION seckill_reconcile_orders(p_activity bigint, p_sku bigint, p_after_user bigint, p_max integer)
RETURNS TABLE (user_id bigint, request_id uuid, reservation_id uuid, message_id uuid, order_id bigint)
LANGUAGE sql STABLE
SET enable_seqscan = off
SET enable_sort = off
AS $$
    SELECT o.user_id, o.request_id, o.reservation_id, o.message_id, o.order_id FROM orders o
    WHERE o.activity_id = p_activity AND o.sku_id = p_sku AND o.user_id > p_after_user
    AND o.status IN ('CREATED', 'PAYING', 'PAID')
    ORDER BY o.activity_id, o.sku_id, o.user_id LIMIT p_max
$$;

-- What came of a round. p_walked: the timeline that was walked, 0: none. p_answered: what an operator waits for is told.
CREATE FUNCTION seckill_reconcile_end(
    p_activity bigint, p_sku bigint, p_life text, p_started_ms bigint, p_outcome text, p_detail jsonb, p_walked bigint,
    p_answered boolean)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_last reconciliation_runs;
    v_run bigint;
BEGIN
    UPDATE reconcile_items SET beat_at = v_now, walked_timeline = GREATEST(walked_timeline, p_walked),
        asked_at = CASE WHEN p_answered AND asked_at < to_timestamp(p_started_ms::float8 / 1000) THEN NULL ELSE asked_at END
    WHERE activity_id = p_activity AND sku_id = p_sku AND life = p_life;
    SELECT * INTO v_last FROM reconciliation_runs
    WHERE activity_id = p_activity AND sku_id = p_sku ORDER BY started_at DESC, run_id DESC LIMIT 1;
    IF v_last.outcome = p_outcome AND v_last.detail -> 'findings' = p_detail -> 'findings' THEN
        UPDATE reconciliation_runs SET finished_at = v_now,
            detail = p_detail || jsonb_build_object('rounds', COALESCE((v_last.detail ->> 'rounds')::bigint, 1) + 1)
        WHERE run_id = v_last.run_id RETURNING run_id INTO v_run;
    ELSE
        INSERT INTO reconciliation_runs (activity_id, sku_id, started_at, finished_at, outcome, detail)
        VALUES (p_activity, p_sku, GREATEST(to_timestamp(p_started_ms::float8 / 1000), v_last.started_at), v_now, p_outcome,
            p_detail || '{"rounds": 1}')
        RETURNING run_id INTO v_run;
    END IF;
    RETURN v_run;
END
$$;
