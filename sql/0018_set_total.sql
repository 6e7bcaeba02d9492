-- The item's total (0007), by compare-and-set on what the caller saw of it and of the epoch. Without it two callers at the same time
-- could leave PostgreSQL with less than Redis, and a rebuild in between could bring back in Redis what had been lowered there.
-- result: CHANGED; SAME; BELOW_SOLD: refused, there are more active orders; ANOTHER: refused, the total or the epoch is another.
DROP FUNCTION seckill_set_total(bigint, bigint, integer);
CREATE FUNCTION seckill_set_total(p_activity bigint, p_sku bigint, p_epoch bigint, p_seen integer, p_total integer)
RETURNS TABLE (result text, total_stock integer, sold_stock integer)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_epoch bigint;
    v_total integer;
    v_sold integer;
BEGIN
    SELECT i.epoch, i.total_stock, i.sold_stock INTO v_epoch, v_total, v_sold FROM seckill_inventory i
    WHERE i.activity_id = p_activity AND i.sku_id = p_sku FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'item %:% is not in seckill_inventory', p_activity, p_sku USING ERRCODE = 'SK002';
    END IF;
    IF v_epoch <> p_epoch OR v_total NOT IN (p_seen, p_total) THEN
        RETURN QUERY SELECT 'ANOTHER', v_total, v_sold;
    ELSIF p_total < v_sold THEN
        RETURN QUERY SELECT 'BELOW_SOLD', v_total, v_sold;
    ELSIF p_total = v_total THEN
        RETURN QUERY SELECT 'SAME', v_total, v_sold;
    ELSE
        INSERT INTO stock_ledger (reservation_id, activity_id, sku_id, delta, kind, at)
        VALUES (gen_random_uuid(), p_activity, p_sku, p_total - v_total, 'TOTAL', v_now);
        UPDATE seckill_inventory i SET total_stock = p_total, version = i.version + 1, updated_at = v_now
        WHERE i.activity_id = p_activity AND i.sku_id = p_sku;
        RETURN QUERY SELECT 'CHANGED', p_total, v_sold;
    END IF;
END
$$;
