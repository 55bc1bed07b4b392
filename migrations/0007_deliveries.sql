-- Events wait by receiver and by order, and keep the fault that their next attempt is under.

ALTER TABLE events
    -- Scheme, host and port of its own URL; empty where it goes to the merchant's, which may change.
    ADD COLUMN receiver     text COLLATE "C" NOT NULL
                            GENERATED ALWAYS AS (coalesce(substring(notify_url FROM '^[^:]+://[^/?#]*'), '')) STORED,
    ADD COLUMN position     bigint,                         -- among the events of its order, from 1 on
    ADD COLUMN waits        boolean NOT NULL DEFAULT false, -- pending behind an earlier event of its order
    ADD COLUMN lease_holder uuid,                           -- the process that has the lease
    ADD COLUMN fault        text;                           -- what strikes the next attempt; it was counted already

UPDATE events e SET position = o.position, waits = o.waits
FROM (
    SELECT merchant_id, event_id,
           row_number() OVER (PARTITION BY merchant_id, trade_no ORDER BY event_id) AS position,
           trade_no IS NOT NULL AND status = 'pending'
               AND row_number() OVER (PARTITION BY merchant_id, trade_no, status ORDER BY event_id) > 1 AS waits
    FROM events) o
WHERE e.merchant_id = o.merchant_id AND e.event_id = o.event_id;

ALTER TABLE events
    ALTER COLUMN position SET NOT NULL,
    ADD CHECK (status = 'pending' OR NOT waits);

-- The events of an order are ordered here and not by their identifiers, which tell the time of some host's clock.
-- A position is assigned, and the first of those that are pending is chosen, under the lock of the order's row;
-- the two unique indexes hold what that makes true.
CREATE UNIQUE INDEX events_position ON events (merchant_id, trade_no, position);
CREATE UNIQUE INDEX events_first ON events (merchant_id, trade_no) WHERE status = 'pending' AND NOT waits;

-- Each receiver's queue can be read from its front, whatever waits for the others.
DROP INDEX events_waiting;
CREATE INDEX events_due ON events (merchant_id, receiver, next_attempt_at) WHERE status = 'pending' AND NOT waits;

ALTER TABLE deliveries
    ADD COLUMN fault text; -- what struck the attempt; null: nothing did
