-- What else happens to messages and to the outbox: void, quarantine, replay, attempts, suspects, settling; and the
-- reads of query-api. Lock order everywhere: inbox → orders → inventory (rule 17).

-- The tombstone (rule 25): inserts the inbox row as REJECTED, else takes over a QUARANTINED one. voided: done now, with
-- an outbox row; else somebody settled the message before, and the row says how.
CREATE FUNCTION seckill_void(
    p_activity bigint, p_sku bigint, p_message uuid, p_request uuid, p_reservation uuid, p_user bigint, p_order bigint,
    p_reason text)
RETURNS TABLE (voided boolean, status text, state text, reason text, order_id bigint, give_back boolean,
    other_order_id bigint, other_reservation_id uuid, other_request_id uuid)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    c_group constant varchar := 'seckill-order-create-v1';
    v_standing bigint;
BEGIN
    FOR try IN 1..3 LOOP
        INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id, sku_id,
            status, last_error_code, processed_at)
        VALUES (c_group, p_message, p_request, p_reservation, p_user, p_activity, p_sku,
            'REJECTED', p_reason, clock_timestamp())
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            -- The inbox row may have been lost to retention: an order is never voided.
            SELECT o.order_id INTO v_standing FROM orders o WHERE o.reservation_id = p_reservation;
            IF FOUND THEN
                UPDATE consumer_inbox i SET status = 'COMPLETED', last_error_code = NULL, order_id = v_standing
                WHERE i.consumer_group = c_group AND i.message_id = p_message;
                RETURN QUERY SELECT false, w.status::text, w.state, w.reason, w.order_id, w.give_back, w.other_order_id,
                        w.other_reservation_id, w.other_request_id FROM inbox_verdict w
                    WHERE w.consumer_group = c_group AND w.message_id = p_message;
                RETURN;
            END IF;
        ELSE
            UPDATE consumer_inbox i SET status = 'REJECTED', last_error_code = p_reason, processed_at = clock_timestamp()
            WHERE i.consumer_group = c_group AND i.message_id = p_message AND i.status = 'QUARANTINED';
            IF FOUND THEN
                UPDATE dead_letters d SET voided_at = clock_timestamp()
                WHERE d.message_id = p_message AND d.replayed_at IS NULL;
            ELSE
                RETURN QUERY SELECT false, w.status::text, w.state, w.reason, w.order_id, w.give_back, w.other_order_id,
                        w.other_reservation_id, w.other_request_id FROM inbox_verdict w
                    WHERE w.consumer_group = c_group AND w.message_id = p_message;
                IF FOUND THEN
                    RETURN;
                END IF;
                CONTINUE; -- replayed in this instant: the row is gone
            END IF;
        END IF;
        INSERT INTO outbox (event_type, message_id, request_id, reservation_id, activity_id, sku_id, user_id, order_id,
            state, reason, give_back)
        VALUES ('RESERVATION_REJECTED', p_message, p_request, p_reservation, p_activity, p_sku, p_user, p_order,
            seckill_state(p_reason), p_reason, true);
        RETURN QUERY SELECT true, 'REJECTED', seckill_state(p_reason), p_reason, NULL::bigint, true, NULL::bigint, NULL::uuid, NULL::uuid;
        RETURN;
    END LOOP;
    RAISE EXCEPTION 'message % comes and goes', p_message USING ERRCODE = 'serialization_failure';
END
$$;

-- Puts a message away. true: stored, or it was there already; false: it was settled before. Without a message id
-- (undecodable, rule 24) only the dead letter.
CREATE FUNCTION seckill_quarantine(
    p_activity bigint, p_sku bigint, p_message uuid, p_request uuid, p_reservation uuid, p_user bigint, p_order bigint,
    p_broker_id text, p_body bytea, p_reason text, p_deliveries integer)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    c_group constant varchar := 'seckill-order-create-v1';
    v_status text;
BEGIN
    IF p_message IS NOT NULL THEN
        FOR try IN 1..3 LOOP
            INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id,
                sku_id, status)
            VALUES (c_group, p_message, p_request, p_reservation, p_user, p_activity, p_sku, 'QUARANTINED')
            ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
            SELECT i.status INTO v_status FROM consumer_inbox i
            WHERE i.consumer_group = c_group AND i.message_id = p_message;
            EXIT WHEN FOUND;
            IF try = 3 THEN
                RAISE EXCEPTION 'message % comes and goes', p_message USING ERRCODE = 'serialization_failure';
            END IF;
        END LOOP;
        IF v_status <> 'QUARANTINED' THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO dead_letters (activity_id, sku_id, message_id, request_id, reservation_id, user_id, order_id, deliveries,
        broker_id, reason, body)
    VALUES (p_activity, p_sku, p_message, p_request, p_reservation, p_user, p_order, p_deliveries,
        p_broker_id, p_reason, p_body)
    ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;

-- A quarantined message's new life (rule 25): its inbox row goes, its attempts begin anew; the caller publishes it.
-- No row: refused, since it is not quarantined (any more).
CREATE FUNCTION seckill_replay(p_dead_letter bigint) RETURNS TABLE (message_id uuid, activity_id bigint, sku_id bigint, body bytea)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_message uuid;
BEGIN
    SELECT d.message_id INTO v_message FROM dead_letters d
    WHERE d.dead_letter_id = p_dead_letter AND d.replayed_at IS NULL AND d.message_id IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM consumer_inbox i WHERE i.consumer_group = 'seckill-order-create-v1' AND i.message_id = v_message
        AND i.status = 'QUARANTINED';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE consumer_attempt_log l SET generation = generation + 1, attempts = 0, last_at = clock_timestamp()
    WHERE l.consumer_group = 'seckill-order-create-v1' AND l.message_id = v_message;
    DELETE FROM suspect_runs s WHERE s.message_id = v_message;
    RETURN QUERY UPDATE dead_letters d SET replayed_at = clock_timestamp() WHERE d.dead_letter_id = p_dead_letter
        RETURNING d.message_id, d.activity_id, d.sku_id, d.body;
END
$$;

-- One own failure more for each of these messages; how many each has now, in the order given.
CREATE FUNCTION seckill_count_attempts(p_message uuid[], p_error_kind text) RETURNS TABLE (ord integer, attempts integer)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH counted AS (
        INSERT INTO consumer_attempt_log AS l (consumer_group, message_id, attempts, last_error_kind)
        SELECT DISTINCT 'seckill-order-create-v1', m.message_id, 1, left(p_error_kind, 64)
        FROM unnest(p_message) AS m (message_id) ORDER BY m.message_id
        ON CONFLICT (consumer_group, message_id) DO UPDATE
            SET attempts = l.attempts + 1, last_at = clock_timestamp(), last_error_kind = EXCLUDED.last_error_kind
        RETURNING l.message_id, l.attempts)
    SELECT m.nth::integer, c.attempts
    FROM unnest(p_message) WITH ORDINALITY AS m (message_id, nth) JOIN counted c ON c.message_id = m.message_id
    ORDER BY m.nth;
END
$$;

-- Rule 23: this life starts to run this suspect alone. Returns how many other lives ended without clearing it; a life
-- without a beat for 10 s has ended.
CREATE FUNCTION seckill_suspect_begin(p_message uuid, p_life text) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM seckill_beat(p_life);
    INSERT INTO suspect_runs AS r (message_id, life) VALUES (p_message, p_life)
    ON CONFLICT (message_id, life) DO UPDATE SET started_at = clock_timestamp(), cleared_at = NULL;
    RETURN (SELECT count(*) FROM suspect_runs r LEFT JOIN worker_lives l ON l.life = r.life
            WHERE r.message_id = p_message AND r.life <> p_life AND r.cleared_at IS NULL
            AND (l.life IS NULL OR l.beat_at < clock_timestamp() - interval '10 seconds'));
END
$$;

CREATE FUNCTION seckill_beat(p_life text) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO worker_lives (life) VALUES (p_life) ON CONFLICT (life) DO UPDATE SET beat_at = clock_timestamp()
$$;

-- Outbox rows that Redis has not heard yet, oldest first. They are claimed for half a second, so that the relays of
-- several workers share the work and a relay that dies is followed by another.
CREATE FUNCTION seckill_unsettled(p_min_age_ms bigint, p_max integer) RETURNS SETOF outbox
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY
    WITH claimed AS (
        UPDATE outbox o SET claimed_at = clock_timestamp()
        FROM (SELECT w.outbox_id FROM outbox w
              WHERE w.settled_at IS NULL AND w.created_at < clock_timestamp() - p_min_age_ms * interval '1 millisecond'
              AND (w.claimed_at IS NULL OR w.claimed_at < clock_timestamp() - interval '500 milliseconds')
              ORDER BY w.created_at LIMIT p_max FOR NO KEY UPDATE SKIP LOCKED) f
        WHERE o.outbox_id = f.outbox_id
        RETURNING o.*)
    SELECT * FROM claimed ORDER BY created_at, outbox_id;
END
$$;

CREATE FUNCTION seckill_mark_settled(p_outbox bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off -- by index, in its order: two markers of the same rows do not cross
AS $$
DECLARE
    v_rows integer;
BEGIN
    UPDATE outbox SET settled_at = clock_timestamp() WHERE outbox_id = ANY (p_outbox) AND settled_at IS NULL;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_rows;
END
$$;

-- A request as query-api tells it: inbox row and order, either may be absent; no row: neither. Of several messages of
-- one key the one with an order is preferred (rule 19).
CREATE FUNCTION seckill_find_request(p_activity bigint, p_sku bigint, p_user bigint, p_request uuid)
RETURNS TABLE (message_id uuid, status text, state text, reason text, inbox_order_id bigint, give_back boolean,
    other_order_id bigint, other_reservation_id uuid, other_request_id uuid, order_id bigint, reservation_id uuid, created_ms bigint, updated_ms bigint, order_status text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT i.message_id, i.status::text, i.state, i.reason, i.order_id, i.give_back,
        i.other_order_id, i.other_reservation_id, i.other_request_id, o.order_id, o.reservation_id, (extract(epoch FROM o.created_at) * 1000)::bigint,
        (extract(epoch FROM o.updated_at) * 1000)::bigint, o.status::text
    FROM (VALUES (1)) AS one (x)
    LEFT JOIN LATERAL (SELECT w.* FROM inbox_verdict w
        WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku
        ORDER BY w.status = 'COMPLETED' DESC, w.processed_at DESC NULLS LAST LIMIT 1) i ON true
    LEFT JOIN LATERAL (SELECT w.* FROM orders w
        WHERE w.user_id = p_user AND w.request_id = p_request AND w.activity_id = p_activity AND w.sku_id = p_sku) o ON true
    WHERE i.message_id IS NOT NULL OR o.order_id IS NOT NULL;
END
$$;

-- The inbox rows of these messages, by their place; those without one are left out.
CREATE FUNCTION seckill_inbox(p_message uuid[])
RETURNS TABLE (ord integer, message_id uuid, status text, state text, reason text, order_id bigint, give_back boolean,
    other_order_id bigint, other_reservation_id uuid, other_request_id uuid)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.nth::integer, i.message_id, i.status::text, i.state, i.reason, i.order_id, i.give_back,
        i.other_order_id, i.other_reservation_id, i.other_request_id
    FROM unnest(p_message) WITH ORDINALITY AS m (message_id, nth)
    CROSS JOIN LATERAL (SELECT w.* FROM inbox_verdict w
        WHERE w.consumer_group = 'seckill-order-create-v1' AND w.message_id = m.message_id LIMIT 1) i;
END
$$;

-- Own failures on record, in the order given.
CREATE FUNCTION seckill_attempts(p_message uuid[]) RETURNS TABLE (ord integer, attempts integer)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.nth::integer, COALESCE((SELECT l.attempts FROM consumer_attempt_log l
        WHERE l.consumer_group = 'seckill-order-create-v1' AND l.message_id = m.message_id), 0)
    FROM unnest(p_message) WITH ORDINALITY AS m (message_id, nth);
END
$$;

CREATE FUNCTION seckill_suspect_clear(p_message uuid[], p_life text) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    v_rows integer;
BEGIN
    UPDATE suspect_runs SET cleared_at = clock_timestamp()
    WHERE message_id = ANY (p_message) AND life = p_life AND cleared_at IS NULL;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_rows;
END
$$;
