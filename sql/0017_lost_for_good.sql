-- What was told to be lost stays lost, and what one rebuild found is not forgotten by the next (rule 37, decisions/0024).
-- Whether a reservation is lost is a question of the first finished rebuild after its epoch, not of the last one: a second loss
-- must not give back time to what the first had ended.

-- Of a finished rebuild: what it did not find is void from void_after on, and told as lost from lost_after on. In between, an
-- order that was begun before void_after has ended: statement_timeout is 10 s, and a look-up asks twice.
ALTER TABLE rebuilds
    ADD COLUMN max_hold_ms BIGINT NOT NULL DEFAULT 600000,
    ADD COLUMN void_after  TIMESTAMPTZ,
    ADD COLUMN lost_after  TIMESTAMPTZ;
UPDATE rebuilds SET void_after = started_at + interval '585 seconds', lost_after = started_at + interval '10 minutes'
WHERE finished_at IS NOT NULL;
-- seckill_inventory.lost_after is from here on when the order function looks at all: the item's first void_after.

CREATE INDEX idx_rebuild_holds_request ON rebuild_holds (activity_id, sku_id, user_id, request_id) WHERE NOT ordered;

-- The highest epoch whose rebuild's void_after (p_told: lost_after) is over: what was reserved below it and is not held is lost.
CREATE FUNCTION seckill_lost_epoch(p_activity bigint, p_sku bigint, p_told boolean) RETURNS bigint
LANGUAGE sql VOLATILE
SET enable_seqscan = off
AS $$
    SELECT COALESCE(max(r.epoch), 0) FROM rebuilds r
    WHERE r.activity_id = p_activity AND r.sku_id = p_sku
    AND CASE WHEN p_told THEN r.lost_after ELSE r.void_after END <= clock_timestamp()
$$;

-- As before (0011), but that what was kept comes along also from a rebuild that came to its end, until it has an outcome.
CREATE OR REPLACE FUNCTION seckill_rebuild_take(
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
BEGIN
    SELECT i.total_stock INTO v_total FROM seckill_inventory i
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku AND i.epoch = p_from AND i.warmed_at IS NOT NULL
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'MOVED', 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '';
        RETURN;
    END IF;
    v_now := clock_timestamp();
    PERFORM 1 FROM rebuilds r
    WHERE r.activity_id = p_activity AND r.sku_id = p_sku AND r.epoch = p_from AND r.finished_at IS NULL
    AND r.life <> p_life AND r.beat_at > v_now - interval '3 seconds';
    IF FOUND THEN
        RETURN QUERY SELECT 'BUSY', 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '';
        RETURN;
    END IF;
    UPDATE seckill_inventory i SET epoch = v_epoch, seq = 0, epoch_at = v_now, version = i.version + 1, updated_at = v_now,
        rebuild_asked_at = NULL
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku;
    INSERT INTO rebuilds (activity_id, sku_id, epoch, started_at, beat_at, life, reason, max_hold_ms)
    VALUES (p_activity, p_sku, v_epoch, v_now, v_now, p_life, left(p_reason, 24), p_max_hold_ms);
    UPDATE rebuild_holds h SET epoch = v_epoch
    WHERE h.activity_id = p_activity AND h.sku_id = p_sku AND h.epoch = p_from AND NOT h.ordered;
    RETURN QUERY
    SELECT 'TAKEN', v_epoch, v_total, (extract(epoch FROM a.starts_at) * 1000)::bigint,
        (extract(epoch FROM a.ends_at) * 1000)::bigint, (extract(epoch FROM a.expires_at) * 1000)::bigint,
        CASE WHEN a.closed_at IS NOT NULL THEN 'CLOSED' WHEN a.opened_at IS NULL OR a.paused_at IS NOT NULL THEN 'PAUSED'
            ELSE 'OPEN' END
    FROM activities a WHERE a.activity_id = p_activity AND a.sku_id = p_sku;
END
$$;

-- As before, but that a reservation which is lost already (an older state of Redis brings it back) is void, and not kept.
-- p_of: the epoch that each one's record has.
DROP FUNCTION seckill_rebuild_keep(bigint, bigint, bigint, uuid[], uuid[], uuid[], bigint[], bigint[], bigint[]);
CREATE FUNCTION seckill_rebuild_keep(
    p_activity bigint, p_sku bigint, p_epoch bigint, p_reservation uuid[], p_message uuid[], p_request uuid[],
    p_user bigint[], p_order bigint[], p_created_ms bigint[], p_of bigint[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
BEGIN
    IF NOT seckill_rebuild_beat(p_activity, p_sku, p_epoch) THEN
        RETURN false;
    END IF;
    PERFORM seckill_void_lost(p_activity, p_sku, p_epoch, p_message, p_request, p_reservation, p_user, p_order, p_of);
    INSERT INTO rebuild_holds (activity_id, sku_id, epoch, reservation_id, message_id, request_id, user_id, order_id,
        created_ms, ordered)
    SELECT p_activity, p_sku, p_epoch, m.reservation_id, m.message_id, m.request_id, m.user_id, m.order_id, m.created_ms, false
    FROM unnest(p_reservation, p_message, p_request, p_user, p_order, p_created_ms)
        AS m (reservation_id, message_id, request_id, user_id, order_id, created_ms)
    ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;

-- As before; and from now on it counts for what is lost.
CREATE OR REPLACE FUNCTION seckill_rebuild_finish(p_activity bigint, p_sku bigint, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    v_now timestamptz;
    v_void_after timestamptz;
BEGIN
    PERFORM 1 FROM seckill_inventory i
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku AND i.epoch = p_epoch FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    v_now := clock_timestamp();
    UPDATE rebuilds r SET finished_at = v_now, lost_after = v_now + r.max_hold_ms * interval '1 millisecond',
        void_after = v_now + GREATEST(r.max_hold_ms - 15000, r.max_hold_ms / 2) * interval '1 millisecond'
    WHERE r.activity_id = p_activity AND r.sku_id = p_sku AND r.epoch = p_epoch AND r.finished_at IS NULL
    RETURNING r.void_after INTO v_void_after;
    IF FOUND THEN
        UPDATE seckill_inventory i SET lost_after = v_void_after
        WHERE i.activity_id = p_activity AND i.sku_id = p_sku AND i.lost_after IS NULL;
    END IF;
    DELETE FROM rebuild_holds h
    WHERE h.activity_id = p_activity AND h.sku_id = p_sku AND (h.epoch < p_epoch OR h.epoch = p_epoch AND h.ordered);
    -- And what is left of items that are over: few rows, and nobody else takes them.
    DELETE FROM rebuild_holds h USING activities a
    WHERE a.activity_id = h.activity_id AND a.sku_id = h.sku_id AND a.expires_at < clock_timestamp() - interval '1 day';
    RETURN true;
END
$$;

-- Rule 37, the second half, as before: but which epochs are lost is asked of the rebuilds.
CREATE OR REPLACE FUNCTION seckill_void_lost(
    p_activity bigint, p_sku bigint, p_epoch bigint, p_message uuid[], p_request uuid[], p_reservation uuid[],
    p_user bigint[], p_order bigint[], p_of bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    v_lost constant bigint := seckill_lost_epoch(p_activity, p_sku, false);
    m record;
BEGIN
    FOR m IN
        SELECT u.* FROM unnest(p_message, p_request, p_reservation, p_user, p_order, p_of)
            AS u (message_id, request_id, reservation_id, user_id, order_id, of_epoch)
        WHERE u.of_epoch < v_lost
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

-- As before, and a reservation that a rebuild kept is known, although it has no outcome yet: KEPT, PROCESSING. So nobody is told
-- that it is lost while Redis is empty again.
CREATE OR REPLACE FUNCTION seckill_find_request(p_activity bigint, p_sku bigint, p_user bigint, p_request uuid)
RETURNS TABLE (message_id uuid, status text, state text, reason text, inbox_order_id bigint, give_back boolean,
    other_order_id bigint, other_reservation_id uuid, other_request_id uuid, order_id bigint, reservation_id uuid, created_ms bigint, updated_ms bigint, order_status text,
    cancel text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT COALESCE(i.message_id, h.message_id), COALESCE(i.status::text, h.status), COALESCE(i.state, h.state),
        COALESCE(i.reason, h.reason), COALESCE(i.order_id, h.order_id), COALESCE(i.give_back, h.give_back),
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
    LEFT JOIN LATERAL (SELECT w.message_id, w.order_id, 'KEPT' AS status, 'PROCESSING' AS state, '' AS reason,
            false AS give_back FROM rebuild_holds w
        WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku
        AND NOT w.ordered LIMIT 1) h ON i.message_id IS NULL AND o.order_id IS NULL
    WHERE i.message_id IS NOT NULL OR o.order_id IS NOT NULL OR h.message_id IS NOT NULL;
END
$$;
