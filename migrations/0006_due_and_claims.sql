-- What is due is found through the merchant's row; a claim is known by its request; a reset is a line in time.

-- A merchant's row is shared (FOR KEY SHARE) by every transaction that writes the merchant's data. Whoever
-- moves its clock, empties it, or moves a due time below to a later one, holds it alone (FOR UPDATE).
ALTER TABLE merchants
    -- The real time at which the next order expires, refund settles or key is void, and that of the next event;
    -- never later than that. So the cost of looking for what is due is what is due, and moving a clock rewrites
    -- no waiting row. A new merchant is looked at after a day, when its first key is void.
    ADD COLUMN due_at          timestamptz NOT NULL DEFAULT now() + interval '1 day',
    ADD COLUMN delivery_due_at timestamptz NOT NULL DEFAULT 'infinity',
    -- Real time of a call within the last hour, or else of the last call.
    ADD COLUMN called_at       timestamptz NOT NULL DEFAULT now(),
    -- When the merchant was emptied last, in real time: calls received before belong to what is gone.
    ADD COLUMN emptied_at      timestamptz,
    -- It is being emptied, in several transactions; until the last one nothing new is written.
    ADD COLUMN emptying        boolean     NOT NULL DEFAULT false;

-- Of those that are there already, it is not known what waits.
UPDATE merchants SET due_at = now(), delivery_due_at = now();

CREATE INDEX merchants_due ON merchants (due_at) WHERE due_at < 'infinity';
CREATE INDEX merchants_delivery_due ON merchants (delivery_due_at) WHERE delivery_due_at < 'infinity';
CREATE INDEX merchants_called ON merchants (called_at);

-- A claim is known by the request that made it, which makes no other: no fence that is counted up can repeat
-- when a key is deleted and used again.
ALTER TABLE idempotency_keys DROP COLUMN fence;

-- What could not be worked off when it was due, and was set aside so that it stops nothing else.
CREATE TABLE stuck (
    merchant_id uuid        NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('order', 'refund', 'event')),
    id          uuid        NOT NULL, -- the trade_no, refund_no or event_id
    since       timestamptz NOT NULL, -- in the merchant's time
    cause       text        NOT NULL,
    PRIMARY KEY (merchant_id, id)
);
