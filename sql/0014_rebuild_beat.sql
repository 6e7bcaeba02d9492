-- A sign of life each second is enough (others wait three): a page of a rebuild writes nothing, most of the time.
CREATE OR REPLACE FUNCTION seckill_rebuild_beat(p_activity bigint, p_sku bigint, p_epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    v_beat timestamptz;
BEGIN
    SELECT r.beat_at INTO v_beat FROM rebuilds r
    JOIN seckill_inventory i ON i.activity_id = r.activity_id AND i.sku_id = r.sku_id AND i.epoch = r.epoch
    WHERE r.activity_id = p_activity AND r.sku_id = p_sku AND r.epoch = p_epoch AND r.finished_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_beat < clock_timestamp() - interval '1 second' THEN
        UPDATE rebuilds r SET beat_at = clock_timestamp()
        WHERE r.activity_id = p_activity AND r.sku_id = p_sku AND r.epoch = p_epoch;
    END IF;
    RETURN true;
END
$$;
