-- Rule 26: the age of the oldest message in the hands of any live worker. With a queue that shows only what waits (RocketMQ)
-- each worker knows its own; the beat tells it and gets the fleet's. Kept as a time by this server's clock.
ALTER TABLE worker_lives ADD COLUMN oldest_at TIMESTAMPTZ;

-- Beside the older one, which suspects and workers of the version before use. p_age_ms: 0 when nothing is in hand. Returns
-- the highest of all lives with a beat in the last 10 s; 0: nobody has anything.
CREATE FUNCTION seckill_beat(p_life text, p_age_ms bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now constant timestamptz := clock_timestamp();
BEGIN
    INSERT INTO worker_lives (life, oldest_at)
    VALUES (p_life, CASE WHEN p_age_ms > 0 THEN v_now - p_age_ms * interval '1 millisecond' END)
    ON CONFLICT (life) DO UPDATE SET beat_at = clock_timestamp(), oldest_at = EXCLUDED.oldest_at;
    RETURN (SELECT COALESCE(max(GREATEST(1, floor(extract(epoch FROM v_now - l.oldest_at) * 1000))), 0)::bigint
            FROM worker_lives l WHERE l.beat_at >= v_now - interval '10 seconds' AND l.oldest_at IS NOT NULL);
END
$$;
