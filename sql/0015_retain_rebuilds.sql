-- Retention takes an item's rebuilds and its turn at reconciliation, too: what 0010 says of seckill_retain, and two tables
-- that came after it. Both are read by the item alone, and an item has few rows in either.
CREATE OR REPLACE FUNCTION seckill_retain(p_after_ms bigint, p_max integer, p_results boolean)
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
    d_rebuilds bigint := 0;
    d_turns bigint := 0;
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

        DELETE FROM rebuilds WHERE (activity_id, sku_id, epoch) IN (
            SELECT w.activity_id, w.sku_id, w.epoch FROM rebuilds w
            WHERE w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id LIMIT v_left);
        GET DIAGNOSTICS d_rebuilds = ROW_COUNT;
        v_left := v_left - d_rebuilds;

        IF v_left > 0 THEN
            DELETE FROM reconcile_items w WHERE w.activity_id = v_item.activity_id AND w.sku_id = v_item.sku_id;
            GET DIAGNOSTICS d_turns = ROW_COUNT;
            v_left := v_left - d_turns;
        END IF;
        d_items := CASE WHEN v_left > 0 THEN 1 ELSE 0 END;
    END IF;

    UPDATE activities a SET retained_to = v_from, retained_at = v_begin,
        purged_at = CASE WHEN d_items > 0 THEN v_begin END
    WHERE a.activity_id = v_item.activity_id AND a.sku_id = v_item.sku_id;

    RETURN QUERY
    SELECT * FROM (VALUES ('parked_commands', d_parked), ('outbox', d_outbox), ('consumer_inbox', d_inbox),
        ('stock_ledger', d_ledger), ('consumer_attempt_log', d_attempts), ('suspect_runs', d_suspects),
        ('dead_letters', d_letters), ('reconciliation_runs', d_runs), ('operator_actions', d_actions),
        ('rebuilds', d_rebuilds), ('reconcile_items', d_turns),
        ('activities', d_items)) AS d (table_name, deleted)
    WHERE d.deleted > 0 OR d.table_name = 'activities' AND NOT v_held;
END
$$;
