-- Puts many messages away in one transaction, all or none; each as seckill_quarantine. A nil UUID is a NULL one. In one
-- order for everybody, so that no two of these wait for one another (rule 17).
CREATE FUNCTION seckill_quarantine_all(
    p_activity bigint[], p_sku bigint[], p_message uuid[], p_request uuid[], p_reservation uuid[], p_user bigint[],
    p_order bigint[], p_broker_id text[], p_body bytea[], p_reason text[], p_deliveries integer[])
RETURNS TABLE (ord integer, stored boolean)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
AS $$
DECLARE
    c_nil constant uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    RETURN QUERY
    SELECT m.nth::integer, seckill_quarantine(m.activity_id, m.sku_id, m.message_id, m.request_id, m.reservation_id,
        m.user_id, m.order_id, m.broker_id, m.body, m.reason, m.deliveries)
    FROM (SELECT u.nth, u.activity_id, u.sku_id, NULLIF(u.message_id, c_nil) AS message_id,
            NULLIF(u.request_id, c_nil) AS request_id, NULLIF(u.reservation_id, c_nil) AS reservation_id, u.user_id,
            u.order_id, u.broker_id, u.body, u.reason, u.deliveries
        FROM unnest(p_activity, p_sku, p_message, p_request, p_reservation, p_user, p_order, p_broker_id, p_body, p_reason,
            p_deliveries) WITH ORDINALITY AS u (activity_id, sku_id, message_id, request_id, reservation_id, user_id,
            order_id, broker_id, body, reason, deliveries, nth)
        ORDER BY u.message_id, u.activity_id, u.sku_id, u.broker_id COLLATE "C", u.nth
        OFFSET 0) m;
END
$$;
