-- The result topic (rule 9), retention (architecture 7), and the ends of commands that cannot be run.

-- ---------------------------------------------------------------- the result topic

-- What was settled before there was a topic is told to nobody.
UPDATE outbox SET published_at = settled_at WHERE settled_at IS NOT NULL AND published_at IS NULL;
-- A row enters it when it is settled and leaves it when it is published: as short as the backlog.
CREATE INDEX idx_outbox_unpublished ON outbox (created_at) WHERE settled_at IS NOT NULL AND published_at IS NULL;

-- Outbox rows that Redis has and the result topic has not, the oldest first, claimed for a while: as seckill_unsettled. A
-- row that a transaction commits late is found like any other, whatever its id.
CREATE FUNCTION seckill_unpublished(p_claim_ms bigint, p_max integer) RETURNS SETOF outbox
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN QUERY
    WITH claimed AS (
        UPDATE outbox o SET claimed_at = clock_timestamp()
        FROM (SELECT w.outbox_id FROM outbox w
              WHERE w.settled_at IS NOT NULL AND w.published_at IS NULL
              AND (w.claimed_at IS NULL OR w.claimed_at < clock_timestamp() - p_claim_ms * interval '1 millisecond')
              ORDER BY w.created_at LIMIT p_max FOR NO KEY UPDATE SKIP LOCKED) f
        WHERE o.outbox_id = f.outbox_id
        RETURNING o.*)
    SELECT * FROM claimed ORDER BY created_at, outbox_id;
END
$$;

CREATE FUNCTION seckill_mark_published(p_outbox bigint[]) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_rows integer;
BEGIN
    UPDATE outbox SET published_at = clock_timestamp() WHERE outbox_id = ANY (p_outbox) AND published_at IS NULL;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_rows;
END
$$;

-- How many rows wait for the topic, counted up to p_max, and since when the oldest does (0: none).
CREATE FUNCTION seckill_unpublished_backlog(p_max integer) RETURNS TABLE (waiting bigint, oldest_ms bigint)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY
    SELECT count(*), COALESCE((extract(epoch FROM clock_timestamp() - min(w.created_at)) * 1000)::bigint, 0)
    FROM (SELECT o.created_at FROM outbox o WHERE o.settled_at IS NOT NULL AND o.published_at IS NULL
          ORDER BY o.created_at LIMIT p_max) w;
END
$$;

-- ---------------------------------------------------------------- retention

-- retained_to: of this item's rows nothing is left that is older; purged_at: nothing is left at all.
ALTER TABLE activities
    ADD COLUMN retained_to TIMESTAMPTZ,
    ADD COLUMN retained_at TIMESTAMPTZ, -- when retention last looked at it
    ADD COLUMN purged_at   TIMESTAMPTZ;
CREATE INDEX idx_activities_due ON activities (expires_at) WHERE purged_at IS NULL;
CREATE INDEX idx_parked_commands_parked_at ON parked_commands USING brin (parked_at);
CREATE INDEX idx_operator_actions_at ON operator_actions USING brin (at);

-- Takes away what is left of an item whose keys have been over for p_after_ms: at most about p_max rows and a tenth of a
-- second a call. Never anything of an item whose keys may still be there (activities.expires_at). The rows of an item lie
-- between its creation and its end, and the item's time goes through that span in steps, each of which reads a few pages
-- by the brin indexes: neither what is taken already nor what is other items' is read over and over. Rows that still
-- have to be told (p_results: on the result topic, too) hold their item up; its turn comes again. Several workers take
-- different items. Orders, payments, refunds and inventory stay,
-- and so does what was written about an item after its span.
--
-- A row a table that lost something, with how many; ('activities', 1): an item is done, or 0: it goes on. No row: nothing
-- to do now.
CREATE FUNCTION seckill_retain(p_after_ms bigint, p_max integer, p_results boolean)
RETURNS TABLE (table_name text, deleted bigint)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    c_group constant varchar := 'seckill-order-create-v1';
    c_step_min constant interval := '1 minute';
    c_step_max constant interval := '1 day';
    v_begin constant timestamptz := clock_timestamp();
    v_due constant timestamptz := v_begin - p_after_ms * interval '1 millisecond';
    v_item record;
    v_from timestamptz;
    v_to timestamptz;
    v_end timestamptz;
    v_step interval := c_step_min;
    v_t timestamptz;
    v_left bigint := p_max;
    v_held boolean := false;
    n bigint;
    n_attempts bigint;
    n_suspects bigint;
    d_parked bigint := 0;
    d_outbox bigint := 0;
    d_inbox bigint := 0;
    d_ledger bigint := 0;
    d_attempts bigint := 0;
    d_suspects bigint := 0;
    d_letters bigint := 0;
    d_runs bigint := 0;
    d_actions bigint := 0;
    d_items bigint := 0;
BEGIN
    SELECT a.activity_id, a.sku_id, a.created_at, a.expires_at, a.retained_to INTO v_item FROM activities a
    WHERE a.purged_at IS NULL AND a.expires_at < v_due
    ORDER BY a.retained_at NULLS FIRST, a.expires_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- A clock that was set back may have dated rows before their item.
    v_from := COALESCE(v_item.retained_to, v_item.created_at - interval '1 day');
    v_end := v_item.expires_at + p_after_ms * interval '1 millisecond';

    WHILE v_from < v_end AND v_left > 0 AND NOT v_held AND clock_timestamp() < v_begin + interval '100 milliseconds' LOOP
        v_t := clock_timestamp();
        v_to := LEAST(v_from + v_step, v_end);

        DELETE FROM parked_commands WHERE ctid = ANY (ARRAY(
            SELECT w.ctid FROM parked_commands w WHERE w.parked_at >= v_from AND w.parked_at < v_to
            AND w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id AND w.done_at IS NOT NULL LIMIT v_left));
        GET DIAGNOSTICS n = ROW_COUNT;
        d_parked := d_parked + n;
        v_left := v_left - n;

        DELETE FROM outbox WHERE ctid = ANY (ARRAY(
            SELECT w.ctid FROM outbox w WHERE w.created_at >= v_from AND w.created_at < v_to
            AND w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id
            AND w.settled_at IS NOT NULL AND (w.published_at IS NOT NULL OR NOT p_results) LIMIT v_left));
        GET DIAGNOSTICS n = ROW_COUNT;
        d_outbox := d_outbox + n;
        v_left := v_left - n;
        EXIT WHEN v_left <= 0;

        -- What still has to be told needs its inbox row.
        SELECT EXISTS (SELECT 1 FROM outbox w WHERE w.created_at >= v_from AND w.created_at < v_to
                AND w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id)
            OR EXISTS (SELECT 1 FROM parked_commands w WHERE w.parked_at >= v_from AND w.parked_at < v_to
                AND w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id) INTO v_held;
        EXIT WHEN v_held;

        WITH gone AS (
            DELETE FROM consumer_inbox WHERE ctid = ANY (ARRAY(
                SELECT w.ctid FROM consumer_inbox w WHERE w.processed_at >= v_from AND w.processed_at < v_to
                AND w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id LIMIT v_left))
            RETURNING message_id),
        attempts AS (DELETE FROM consumer_attempt_log l USING gone g
            WHERE l.consumer_group = c_group AND l.message_id = g.message_id RETURNING 1),
        suspects AS (DELETE FROM suspect_runs s USING gone g WHERE s.message_id = g.message_id RETURNING 1)
        SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM attempts), (SELECT count(*) FROM suspects)
        INTO n, n_attempts, n_suspects;
        d_inbox := d_inbox + n;
        d_attempts := d_attempts + n_attempts;
        d_suspects := d_suspects + n_suspects;
        v_left := v_left - n;
        EXIT WHEN v_left <= 0;

        DELETE FROM stock_ledger WHERE ctid = ANY (ARRAY(
            SELECT w.ctid FROM stock_ledger w WHERE w.at >= v_from AND w.at < v_to
            AND w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id LIMIT v_left));
        GET DIAGNOSTICS n = ROW_COUNT;
        d_ledger := d_ledger + n;
        v_left := v_left - n;
        EXIT WHEN v_left <= 0;

        v_from := v_to;
        -- Nothing much in it: a longer step.
        v_step := CASE WHEN clock_timestamp() < v_t + interval '5 milliseconds' THEN LEAST(v_step * 2, c_step_max)
            ELSE GREATEST(v_step / 4, c_step_min) END;
    END LOOP;

    IF v_from >= v_end AND v_left > 0 AND NOT v_held THEN
        WITH gone AS (
            DELETE FROM dead_letters WHERE ctid = ANY (ARRAY(
                SELECT w.ctid FROM dead_letters w WHERE w.created_at >= v_item.created_at - interval '1 day'
                AND w.created_at < v_end
                AND w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id LIMIT v_left))
            RETURNING message_id),
        inbox AS (DELETE FROM consumer_inbox i USING gone g
            WHERE i.consumer_group = c_group AND i.message_id = g.message_id RETURNING 1),
        attempts AS (DELETE FROM consumer_attempt_log l USING gone g
            WHERE l.consumer_group = c_group AND l.message_id = g.message_id RETURNING 1),
        suspects AS (DELETE FROM suspect_runs s USING gone g WHERE s.message_id = g.message_id RETURNING 1)
        SELECT (SELECT count(*) FROM gone), d_inbox + (SELECT count(*) FROM inbox),
            d_attempts + (SELECT count(*) FROM attempts), d_suspects + (SELECT count(*) FROM suspects)
        INTO d_letters, d_inbox, d_attempts, d_suspects;
        v_left := v_left - d_letters;

        DELETE FROM reconciliation_runs WHERE ctid = ANY (ARRAY(
            SELECT w.ctid FROM reconciliation_runs w
            WHERE w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id LIMIT v_left));
        GET DIAGNOSTICS d_runs = ROW_COUNT;
        v_left := v_left - d_runs;

        DELETE FROM operator_actions WHERE ctid = ANY (ARRAY(
            SELECT w.ctid FROM operator_actions w
            WHERE w.at >= v_item.created_at - interval '1 day' AND w.at < v_end
            AND w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id LIMIT v_left));
        GET DIAGNOSTICS d_actions = ROW_COUNT;
        v_left := v_left - d_actions;
        d_items := CASE WHEN v_left > 0 THEN 1 ELSE 0 END;
    END IF;

    UPDATE activities a SET retained_to = v_from, retained_at = v_begin,
        purged_at = CASE WHEN d_items > 0 THEN v_begin END
    WHERE a.activity_id = v_item.activity_id AND a.sku_id = v_item.sku_id;

    RETURN QUERY
    SELECT * FROM (VALUES ('parked_commands', d_parked), ('outbox', d_outbox), ('consumer_inbox', d_inbox),
        ('stock_ledger', d_ledger), ('consumer_attempt_log', d_attempts), ('suspect_runs', d_suspects),
        ('dead_letters', d_letters), ('reconciliation_runs', d_runs), ('operator_actions', d_actions),
        ('activities', d_items)) AS d (table_name, deleted)
    WHERE d.deleted > 0 OR d.table_name = 'activities' AND NOT v_held;
END
$$;

-- What belongs to no item and would stay for ever: undecodable messages and those of items nobody knows, attempts and
-- suspects whose message was never decided, workers' lives, operators' actions that name no item. Taken when older than
-- p_older_ms, and never while an item that is not purged was there at that time, whose they might be.
CREATE FUNCTION seckill_retain_strays(p_older_ms bigint, p_max integer)
RETURNS TABLE (table_name text, deleted bigint)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    c_group constant varchar := 'seckill-order-create-v1';
    v_old constant timestamptz := clock_timestamp() - p_older_ms * interval '1 millisecond';
    v_before timestamptz;
    d_letters bigint;
    d_inbox bigint;
    d_attempts bigint;
    d_suspects bigint;
    d_lives bigint;
    d_actions bigint;
BEGIN
    SELECT LEAST(v_old, min(a.created_at)) INTO v_before FROM activities a WHERE a.purged_at IS NULL;

    WITH gone AS (
        DELETE FROM dead_letters WHERE ctid = ANY (ARRAY(
            SELECT w.ctid FROM dead_letters w WHERE w.created_at < v_before AND NOT EXISTS (
                SELECT 1 FROM activities a WHERE a.activity_id = w.activity_id AND a.sku_id = w.sku_id
                AND a.purged_at IS NULL)
            ORDER BY w.created_at LIMIT p_max))
        RETURNING message_id),
    inbox AS (DELETE FROM consumer_inbox i USING gone g
        WHERE i.consumer_group = c_group AND i.message_id = g.message_id AND i.status = 'QUARANTINED' RETURNING 1)
    SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM inbox) INTO d_letters, d_inbox;

    DELETE FROM consumer_attempt_log WHERE ctid = ANY (ARRAY(
        SELECT w.ctid FROM consumer_attempt_log w WHERE w.last_at < v_before AND NOT EXISTS (
            SELECT 1 FROM consumer_inbox i WHERE i.consumer_group = c_group AND i.message_id = w.message_id)
        ORDER BY w.last_at LIMIT p_max));
    GET DIAGNOSTICS d_attempts = ROW_COUNT;

    DELETE FROM suspect_runs WHERE ctid = ANY (ARRAY(
        SELECT w.ctid FROM suspect_runs w WHERE w.started_at < v_before AND NOT EXISTS (
            SELECT 1 FROM consumer_inbox i WHERE i.consumer_group = c_group AND i.message_id = w.message_id)
        ORDER BY w.started_at LIMIT p_max));
    GET DIAGNOSTICS d_suspects = ROW_COUNT;

    -- A life without a row has ended, as one without a beat has.
    DELETE FROM worker_lives WHERE life = ANY (ARRAY(
        SELECT w.life FROM worker_lives w WHERE w.beat_at < v_old LIMIT p_max)) AND beat_at < v_old;
    GET DIAGNOSTICS d_lives = ROW_COUNT;

    DELETE FROM operator_actions WHERE ctid = ANY (ARRAY(
        SELECT w.ctid FROM operator_actions w WHERE w.at < v_before AND w.activity_id IS NULL LIMIT p_max));
    GET DIAGNOSTICS d_actions = ROW_COUNT;

    RETURN QUERY
    SELECT * FROM (VALUES ('dead_letters', d_letters), ('consumer_inbox', d_inbox), ('consumer_attempt_log', d_attempts),
        ('suspect_runs', d_suspects), ('worker_lives', d_lives), ('operator_actions', d_actions)) AS d (table_name, deleted)
    WHERE d.deleted > 0;
END
$$;

-- ---------------------------------------------------------------- commands that cannot be run

-- As before, of a command, too (p_command; '' or NULL: an order message), whose reservation may not be known. One that
-- was parked is parked no longer.
CREATE FUNCTION seckill_quarantine(
    p_activity bigint, p_sku bigint, p_message uuid, p_request uuid, p_reservation uuid, p_user bigint, p_order bigint,
    p_broker_id text, p_body bytea, p_reason text, p_deliveries integer, p_command text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    c_group constant varchar := 'seckill-order-create-v1';
    c_nil constant uuid := '00000000-0000-0000-0000-000000000000';
    v_status text;
BEGIN
    IF p_message IS NOT NULL THEN
        FOR try IN 1..3 LOOP
            INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, user_id, activity_id,
                sku_id, status, command)
            VALUES (c_group, p_message, p_request, COALESCE(p_reservation, c_nil), p_user, p_activity, p_sku, 'QUARANTINED',
                NULLIF(p_command, ''))
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
        IF p_command <> '' THEN
            UPDATE parked_commands SET done_at = clock_timestamp() WHERE message_id = p_message AND done_at IS NULL;
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

CREATE FUNCTION seckill_quarantine_all(
    p_activity bigint[], p_sku bigint[], p_message uuid[], p_request uuid[], p_reservation uuid[], p_user bigint[],
    p_order bigint[], p_broker_id text[], p_body bytea[], p_reason text[], p_deliveries integer[], p_command text[])
RETURNS TABLE (ord integer, stored boolean)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    c_nil constant uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    RETURN QUERY
    SELECT m.nth::integer, seckill_quarantine(m.activity_id, m.sku_id, m.message_id, m.request_id, m.reservation_id,
        m.user_id, m.order_id, m.broker_id, m.body, m.reason, m.deliveries, m.command)
    FROM (SELECT u.nth, u.activity_id, u.sku_id, NULLIF(u.message_id, c_nil) AS message_id,
            NULLIF(u.request_id, c_nil) AS request_id, NULLIF(u.reservation_id, c_nil) AS reservation_id, u.user_id,
            u.order_id, u.broker_id, u.body, u.reason, u.deliveries, u.command
        FROM unnest(p_activity, p_sku, p_message, p_request, p_reservation, p_user, p_order, p_broker_id, p_body, p_reason,
            p_deliveries, p_command) WITH ORDINALITY AS u (activity_id, sku_id, message_id, request_id, reservation_id,
            user_id, order_id, broker_id, body, reason, deliveries, command, nth)
        ORDER BY u.message_id, u.activity_id, u.sku_id, u.broker_id COLLATE "C", u.nth
        OFFSET 0) m;
END
$$;

-- One own failure more for each of these parked commands (rule 20); those that have p_max of them are put away as dead
-- letters and wait no longer. How many that was.
CREATE FUNCTION seckill_parked_failed(p_message uuid[], p_error_kind text, p_max integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
BEGIN
    RETURN (SELECT count(*) FILTER (WHERE d.stored)
        FROM (SELECT seckill_quarantine(w.activity_id, w.sku_id, w.message_id, w.request_id, w.reservation_id, w.user_id,
                  COALESCE(w.order_id, 0), 'parked ' || w.message_id, w.body,
                  'failed by its own fault too often, parked', c.attempts, w.command) AS stored
              FROM seckill_count_attempts(p_message, p_error_kind) c
              JOIN parked_commands w ON w.message_id = p_message[c.ord]
              WHERE c.attempts >= p_max AND w.done_at IS NULL) d);
END
$$;

-- As before; a command that was parked when it was put away may be parked again.
CREATE OR REPLACE FUNCTION seckill_replay(p_dead_letter bigint) RETURNS TABLE (message_id uuid, activity_id bigint, sku_id bigint, body bytea)
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
    DELETE FROM parked_commands p WHERE p.message_id = v_message AND p.done_at IS NOT NULL;
    UPDATE consumer_attempt_log l SET generation = generation + 1, attempts = 0, last_at = clock_timestamp()
    WHERE l.consumer_group = 'seckill-order-create-v1' AND l.message_id = v_message;
    DELETE FROM suspect_runs s WHERE s.message_id = v_message;
    RETURN QUERY UPDATE dead_letters d SET replayed_at = clock_timestamp() WHERE d.dead_letter_id = p_dead_letter
        RETURNING d.message_id, d.activity_id, d.sku_id, d.body;
END
$$;
