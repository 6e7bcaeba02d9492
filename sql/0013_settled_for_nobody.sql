-- As before, where nobody reads results (p_tell false): then what is settled counts as published, too, in the same update, and
-- never enters idx_outbox_unpublished, which would otherwise grow by an entry an order for nobody.
CREATE FUNCTION seckill_mark_settled(p_outbox bigint[], p_tell boolean) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off -- by index, in its order: two markers of the same rows do not cross
AS $$
DECLARE
    v_now constant timestamptz := clock_timestamp();
    v_rows integer;
BEGIN
    UPDATE outbox SET settled_at = v_now, published_at = CASE WHEN p_tell THEN published_at ELSE v_now END
    WHERE outbox_id = ANY (p_outbox) AND settled_at IS NULL;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_rows;
END
$$;
