-- Webhooks: where a merchant's events go, when each is sent next, and what came of every attempt.

-- The secret that signs is there from the start, so that a receiver can be configured before the first
-- event. The default differs from row to row, also for the merchants that are there already.
ALTER TABLE merchants
    ADD COLUMN webhook_url             text,
    ADD COLUMN webhook_secret          text NOT NULL
        DEFAULT 'whsec_' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
    ADD COLUMN previous_webhook_secret text,
    -- Real time and not the merchant's, since receivers judge signatures by real time.
    ADD COLUMN previous_secret_until   timestamptz,
    ADD CHECK ((previous_webhook_secret IS NULL) = (previous_secret_until IS NULL));

ALTER TABLE events
    ALTER COLUMN trade_no DROP NOT NULL,                 -- the test callback tells of no order
    ADD COLUMN status          text    NOT NULL DEFAULT 'no_url'
                               CHECK (status IN ('pending', 'delivered', 'failed', 'no_url')),
    ADD COLUMN attempts        integer NOT NULL DEFAULT 0, -- all that were made
    ADD COLUMN retries         integer NOT NULL DEFAULT 0, -- pauses of the schedule that are used up
    ADD COLUMN next_attempt_at timestamptz,                -- the merchant's time
    ADD COLUMN lease_until     timestamptz,                -- real time; until then the attempt is somebody's
    ADD COLUMN fence           bigint  NOT NULL DEFAULT 0; -- raised by every lease and by a redelivery

-- What was recorded before there was a delivery is sent now, if it says where to.
UPDATE events SET status = 'pending', next_attempt_at = created_at WHERE notify_url IS NOT NULL;

ALTER TABLE events
    ALTER COLUMN status DROP DEFAULT,
    ADD CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL));

CREATE INDEX events_waiting ON events (merchant_id, next_attempt_at) WHERE status = 'pending';
CREATE INDEX events_of_order ON events (merchant_id, trade_no, event_id);

-- One row for each attempt to deliver an event, written when the attempt has ended.
CREATE TABLE deliveries (
    merchant_id      uuid        NOT NULL,
    event_id         uuid        NOT NULL,
    attempt          integer     NOT NULL, -- counts from 1, in the order in which the attempts ended
    at               timestamptz NOT NULL, -- when it began, in the merchant's time
    url              text        NOT NULL,
    signature        text        NOT NULL, -- the header as it was sent
    status           smallint,             -- of the receiver's answer; null where there was none
    error            text,                 -- why it is no acknowledgement, for people; null where it is one
    duration_ms      bigint      NOT NULL,
    response_excerpt text,
    PRIMARY KEY (merchant_id, event_id, attempt)
);
