-- Commands that the queue accepted and may have lost (rule 27, docs/decisions/0026): those that nobody knows yet wait in
-- parked_commands, and the sweep runs them as if they had been parked by their own call. Others are left as they are. Lock
-- order as everywhere: inbox by message_id → payments.

-- Parallel arrays as of seckill_pay, whose last two a cancel leaves empty; how many are parked now that were not.
CREATE FUNCTION seckill_park(
    p_activity bigint, p_sku bigint,
    p_message uuid[], p_user bigint[], p_request uuid[], p_reservation uuid[], p_order bigint[], p_body bytea[],
    p_payment text[], p_accepted_ms bigint[], p_command text)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
AS $$
DECLARE
    c_pay constant text := 'ORDER_PAY_REQUESTED';
    v_now timestamptz := clock_timestamp();
    v_reservation uuid[] := array_replace(p_reservation, '00000000-0000-0000-0000-000000000000', NULL);
    v_fresh integer[];
    e_nth integer[];
    e_result text[];
    v_new integer;
BEGIN
    -- Waits for whoever has one in hand, so that none is parked that is known a moment later.
    v_fresh := seckill_command_begin(p_command, p_activity, p_sku, p_message, p_user, p_request, v_reservation, v_now);
    IF cardinality(v_fresh) = 0 THEN
        RETURN 0;
    END IF;
    IF p_command = c_pay THEN -- an order that was paid in time does not expire meanwhile
        INSERT INTO payments (payment_id, order_id, activity_id, sku_id, user_id, request_id, status, accepted_at,
            created_at, updated_at)
        SELECT p_payment[f.nth], p_order[f.nth], p_activity, p_sku, p_user[f.nth], p_request[f.nth], 'ACCEPTED',
            to_timestamp(p_accepted_ms[f.nth]::float8 / 1000), v_now, v_now
        FROM unnest(v_fresh) AS f (nth)
        ORDER BY 1
        ON CONFLICT DO NOTHING;
    END IF;
    -- A payment id that is another payment's leaves nothing, as in seckill_pay.
    SELECT array_agg(f.nth), array_agg(CASE WHEN p_command <> c_pay OR p.same THEN 'PARKED' END),
        count(*) FILTER (WHERE (p_command <> c_pay OR p.same) AND k.message_id IS NULL)
    INTO e_nth, e_result, v_new
    FROM unnest(v_fresh) AS f (nth)
    LEFT JOIN LATERAL (SELECT (w.activity_id, w.sku_id, w.user_id, w.request_id, w.order_id)
            = (p_activity, p_sku, p_user[f.nth], p_request[f.nth], p_order[f.nth]) AS same
        FROM payments w WHERE w.payment_id = p_payment[f.nth] LIMIT 1) p ON true
    LEFT JOIN LATERAL (SELECT w.message_id FROM parked_commands w WHERE w.message_id = p_message[f.nth] LIMIT 1) k ON true;
    PERFORM seckill_command_end(p_command, p_activity, p_sku, v_now, p_message, p_user, p_request, v_reservation,
        p_order, p_body, e_nth, e_result, array_fill(''::text, ARRAY[cardinality(e_nth)]),
        array_fill(NULL::bigint, ARRAY[cardinality(e_nth)]));
    RETURN v_new;
END
$$;
