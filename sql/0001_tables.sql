-- The tables (architecture 5; the columns of seed 000 §8.1, and more). One row of seckill_inventory is the hot row of
-- a sale; all else is append-mostly. Text that is compared is COLLATE "C": ids and names, not words.

CREATE TABLE activities (
    activity_id BIGINT NOT NULL CHECK (activity_id > 0),
    sku_id      BIGINT NOT NULL CHECK (sku_id > 0),
    starts_at   TIMESTAMPTZ NOT NULL,
    ends_at     TIMESTAMPTZ NOT NULL,
    expires_at  TIMESTAMPTZ NOT NULL, -- when all of the item's Redis keys expire: ends_at cannot be moved past it
    created_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    closed_at   TIMESTAMPTZ,
    PRIMARY KEY (activity_id, sku_id),
    CONSTRAINT ck_activities_window CHECK (starts_at < ends_at AND ends_at < expires_at)
);

-- fillfactor: each call of the order function updates the row; with room on its page the update stays on it (HOT).
CREATE TABLE seckill_inventory (
    activity_id BIGINT NOT NULL,
    sku_id      BIGINT NOT NULL,
    total_stock INTEGER NOT NULL,
    sold_stock  INTEGER NOT NULL DEFAULT 0,
    version     BIGINT NOT NULL DEFAULT 0,
    epoch       BIGINT NOT NULL DEFAULT 1,
    seq         BIGINT NOT NULL DEFAULT 0, -- the highest of this epoch among the orders (rule 34b)
    epoch_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), -- when the epoch last moved (rule 37)
    warmed_at   TIMESTAMPTZ, -- rule 33: an item warmed once can only be rebuilt
    updated_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (activity_id, sku_id),
    CONSTRAINT ck_inventory_total_nonnegative CHECK (total_stock >= 0),
    CONSTRAINT ck_inventory_sold_range CHECK (sold_stock >= 0 AND sold_stock <= total_stock)
) WITH (fillfactor = 50);

CREATE TABLE orders (
    order_id       BIGINT PRIMARY KEY,
    message_id     UUID NOT NULL, -- the message that made it
    request_id     UUID NOT NULL,
    reservation_id UUID NOT NULL,
    activity_id    BIGINT NOT NULL,
    sku_id         BIGINT NOT NULL,
    user_id        BIGINT NOT NULL,
    reserved_at    TIMESTAMPTZ NOT NULL, -- the event's created_at
    created_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    updated_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    status         VARCHAR(24) COLLATE "C" NOT NULL,
    closed_reason  VARCHAR(64) COLLATE "C", -- why CANCELLED or CLOSED: CANCELLED, EXPIRED, CLOSED, LOST_ORDER
    CONSTRAINT ck_orders_status CHECK (status IN ('CREATED', 'PAYING', 'PAID', 'CANCELLED', 'CLOSED')),
    CONSTRAINT ck_orders_ids CHECK (order_id > 0 AND user_id > 0),
    CONSTRAINT uq_orders_user_request UNIQUE (user_id, request_id),
    CONSTRAINT uq_orders_reservation UNIQUE (reservation_id)
);
-- One active order per buyer and item; a cancelled one can be bought again.
CREATE UNIQUE INDEX uq_orders_active ON orders (activity_id, sku_id, user_id)
    WHERE status IN ('CREATED', 'PAYING', 'PAID');

-- The inbox row is also the tombstone: order, void and quarantine of a message exclude each other by its primary key.
-- consumer_group always holds the logical consumer, 'seckill-order-create-v1' (rule 16).
CREATE TABLE consumer_inbox (
    message_id      UUID NOT NULL,
    request_id      UUID NOT NULL,
    reservation_id  UUID NOT NULL,
    user_id         BIGINT NOT NULL,
    activity_id     BIGINT NOT NULL,
    sku_id          BIGINT NOT NULL,
    order_id        BIGINT, -- COMPLETED: the order that stands for this message, perhaps another message's
    other_order_id  BIGINT, -- the order that stands instead of this reservation's own, in whatever status
    received_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    processed_at    TIMESTAMPTZ,
    consumer_group  VARCHAR(128) COLLATE "C" NOT NULL,
    status          VARCHAR(24) COLLATE "C" NOT NULL,
    last_error_code VARCHAR(64) COLLATE "C", -- REJECTED: the reason
    PRIMARY KEY (message_id, consumer_group), -- the group is always the same: compared last
    CONSTRAINT ck_consumer_inbox_status CHECK (status IN ('PROCESSING', 'COMPLETED', 'REJECTED', 'QUARANTINED'))
);
CREATE INDEX idx_consumer_inbox_processed_at ON consumer_inbox USING brin (processed_at); -- retention
CREATE INDEX idx_consumer_inbox_user_request ON consumer_inbox (user_id, request_id);

-- What Redis and the result topic must still hear. settled_at: settled in Redis; published_at: on the result topic
-- (rule 9). Identity values come in session caches: nobody may read by "id > last".
CREATE TABLE outbox (
    outbox_id            BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 64) PRIMARY KEY,
    message_id           UUID NOT NULL,
    request_id           UUID NOT NULL,
    reservation_id       UUID NOT NULL,
    activity_id          BIGINT NOT NULL,
    sku_id               BIGINT NOT NULL,
    user_id              BIGINT NOT NULL,
    order_id             BIGINT NOT NULL, -- of the event; the one that exists instead: other_order_id
    created_at           TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    other_order_id       BIGINT,
    other_reservation_id UUID,
    other_request_id     UUID,
    claimed_at           TIMESTAMPTZ, -- a relay has it in hand
    settled_at           TIMESTAMPTZ,
    published_at         TIMESTAMPTZ,
    give_back            BOOLEAN NOT NULL,
    event_type           VARCHAR(32) COLLATE "C" NOT NULL, -- ORDER_CREATED, RESERVATION_SETTLED, RESERVATION_REJECTED, ORDER_CANCELLED
    state                VARCHAR(24) COLLATE "C" NOT NULL,
    reason               VARCHAR(64) COLLATE "C" NOT NULL,
    CONSTRAINT ck_outbox_state CHECK (state IN ('SUCCEEDED', 'SOLD_OUT', 'REJECTED', 'FAILED', 'CANCELLED'))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
-- By time and not by id: the primary key would do for an order by id, and walk all that is settled.
CREATE INDEX idx_outbox_unsettled ON outbox (created_at) WHERE settled_at IS NULL;
CREATE INDEX idx_outbox_created_at ON outbox USING brin (created_at); -- retention

-- Every movement of a unit, append-only. delta is the change of the item's free units (total − sold): the sum over an
-- item is what is free. By its key a reservation takes at most one unit and gives at most one back.
CREATE TABLE stock_ledger (
    reservation_id UUID NOT NULL, -- of TOTAL: an id of its own
    activity_id    BIGINT NOT NULL,
    sku_id         BIGINT NOT NULL,
    order_id       BIGINT,
    at             TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    delta          INTEGER NOT NULL CHECK (delta <> 0),
    kind           VARCHAR(16) COLLATE "C" NOT NULL, -- TOTAL, ORDER, CANCEL, EXPIRE, CLOSE, TRANSFER
    PRIMARY KEY (reservation_id, delta)
);
CREATE INDEX idx_stock_ledger_at ON stock_ledger USING brin (at); -- retention

CREATE TABLE dead_letters (
    dead_letter_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    activity_id    BIGINT NOT NULL, -- 0: not known
    sku_id         BIGINT NOT NULL,
    message_id     UUID, -- NULL: undecodable (rule 24)
    request_id     UUID,
    reservation_id UUID,
    user_id        BIGINT,
    order_id       BIGINT,
    deliveries     INTEGER NOT NULL,
    created_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    replayed_at    TIMESTAMPTZ,
    voided_at      TIMESTAMPTZ,
    broker_id      TEXT COLLATE "C" NOT NULL,
    reason         TEXT NOT NULL,
    body           BYTEA NOT NULL
);
CREATE UNIQUE INDEX uq_dead_letters_message ON dead_letters (message_id)
    WHERE message_id IS NOT NULL AND replayed_at IS NULL;
CREATE UNIQUE INDEX uq_dead_letters_raw ON dead_letters (activity_id, sku_id, broker_id)
    WHERE message_id IS NULL AND replayed_at IS NULL;
CREATE INDEX idx_dead_letters_created_at ON dead_letters (created_at);

-- A message's own failures (rule 20); a replay begins a new generation at 0.
CREATE TABLE consumer_attempt_log (
    message_id      UUID NOT NULL,
    generation      INTEGER NOT NULL DEFAULT 1,
    attempts        INTEGER NOT NULL,
    first_at        TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    last_at         TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    consumer_group  VARCHAR(128) COLLATE "C" NOT NULL,
    last_error_kind VARCHAR(64) COLLATE "C" NOT NULL,
    PRIMARY KEY (consumer_group, message_id)
);
CREATE INDEX idx_consumer_attempt_log_last_at ON consumer_attempt_log (last_at);

-- Rule 23: a process's life, and the suspects it runs alone.
CREATE TABLE worker_lives (
    life       TEXT COLLATE "C" PRIMARY KEY,
    started_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    beat_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
CREATE TABLE suspect_runs (
    message_id UUID NOT NULL,
    life       TEXT COLLATE "C" NOT NULL,
    started_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    cleared_at TIMESTAMPTZ,
    PRIMARY KEY (message_id, life)
);
CREATE INDEX idx_suspect_runs_started_at ON suspect_runs (started_at);

-- A command that came before its order (rule 27).
CREATE TABLE parked_commands (
    message_id     UUID PRIMARY KEY,
    command        VARCHAR(32) COLLATE "C" NOT NULL CHECK (command IN ('ORDER_CANCEL_REQUESTED', 'ORDER_PAY_REQUESTED')),
    activity_id    BIGINT NOT NULL,
    sku_id         BIGINT NOT NULL,
    user_id        BIGINT NOT NULL,
    request_id     UUID NOT NULL,
    reservation_id UUID,
    order_id       BIGINT,
    body           BYTEA NOT NULL,
    parked_at      TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    done_at        TIMESTAMPTZ
);
CREATE INDEX idx_parked_commands_waiting ON parked_commands (parked_at) WHERE done_at IS NULL;

CREATE TABLE payments (
    payment_id  VARCHAR(128) COLLATE "C" PRIMARY KEY,
    order_id    BIGINT NOT NULL,
    activity_id BIGINT NOT NULL,
    sku_id      BIGINT NOT NULL,
    user_id     BIGINT NOT NULL,
    request_id  UUID NOT NULL,
    status      VARCHAR(24) COLLATE "C" NOT NULL CHECK (status IN ('ACCEPTED', 'APPLIED', 'REFUNDED')),
    accepted_at TIMESTAMPTZ NOT NULL, -- Redis time
    created_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    updated_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX idx_payments_order ON payments (order_id);
CREATE TABLE refunds (
    refund_id    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment_id   VARCHAR(128) COLLATE "C" NOT NULL UNIQUE REFERENCES payments,
    order_id     BIGINT NOT NULL,
    reason       VARCHAR(64) COLLATE "C" NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    completed_at TIMESTAMPTZ
);

CREATE TABLE reconciliation_runs (
    run_id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    activity_id BIGINT NOT NULL,
    sku_id      BIGINT NOT NULL,
    started_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    finished_at TIMESTAMPTZ,
    outcome     VARCHAR(24) COLLATE "C" CHECK (outcome IN ('CLEAN', 'DISCREPANCY', 'FAILED')),
    detail      JSONB
);
CREATE INDEX idx_reconciliation_runs_item ON reconciliation_runs (activity_id, sku_id, started_at);

CREATE TABLE operator_actions (
    action_id   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    operator    TEXT NOT NULL DEFAULT session_user,
    action      VARCHAR(64) COLLATE "C" NOT NULL,
    activity_id BIGINT,
    sku_id      BIGINT,
    detail      JSONB
);
