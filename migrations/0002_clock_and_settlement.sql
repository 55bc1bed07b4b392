-- Every merchant has a clock of its own, and refunds may take time to settle.

-- The merchant's time is the database's, plus an offset, or stands still. Leases and signatures do not
-- follow it.
ALTER TABLE merchants
    ADD COLUMN clock_offset_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN clock_frozen_at timestamptz;

ALTER TABLE refunds
    ADD COLUMN settles_at timestamptz, -- when a pending refund settles, in the merchant's time
    ADD COLUMN settles_as text CHECK (settles_as IN ('succeeded', 'failed')),
    ADD CHECK (status <> 'pending' OR (settles_at IS NOT NULL AND settles_as IS NOT NULL));

-- What waits for its time is looked for merchant by merchant, since each has a time of its own.
DROP INDEX orders_due;
CREATE INDEX orders_waiting ON orders (merchant_id, expires_at) WHERE status = 'pending';
CREATE INDEX refunds_waiting ON refunds (merchant_id, settles_at) WHERE status = 'pending';
