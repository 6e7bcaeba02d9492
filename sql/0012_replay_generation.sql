-- As before, but a replayed message begins a new generation of attempts also when it was put away without a failure of its own
-- (dead letters of suspects, rule 23): consumer_attempt_log tells each life (rule 25).
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
    INSERT INTO consumer_attempt_log AS l (consumer_group, message_id, generation, attempts, last_error_kind)
    VALUES ('seckill-order-create-v1', v_message, 2, 0, 'replayed')
    ON CONFLICT (consumer_group, message_id)
        DO UPDATE SET generation = l.generation + 1, attempts = 0, last_at = clock_timestamp();
    DELETE FROM suspect_runs s WHERE s.message_id = v_message;
    RETURN QUERY UPDATE dead_letters d SET replayed_at = clock_timestamp() WHERE d.dead_letter_id = p_dead_letter
        RETURNING d.message_id, d.activity_id, d.sku_id, d.body;
END
$$;
