-- When an item was first let to be opened: written before Redis opens it. An item that was warmed, is not in Redis, and
-- was never opened cannot have lost anything: its warming is gone on with (rule 33, docs/decisions/0009).
ALTER TABLE activities ADD COLUMN opened_at TIMESTAMPTZ;
-- Of those that were warmed before there was this column nobody knows: as if opened.
UPDATE activities a SET opened_at = i.warmed_at FROM seckill_inventory i
WHERE i.activity_id = a.activity_id AND i.sku_id = a.sku_id;
