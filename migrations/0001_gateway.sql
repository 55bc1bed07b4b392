-- The gateway: merchants, orders, refunds, events and idempotency keys.
--
-- Every primary key starts with the merchant, and so does every query of a request: the tables can be
-- spread by merchant over a distributed Postgres. There are no foreign keys between them, since such a
-- Postgres would have to check them across nodes, and nothing is ever deleted but a whole merchant.

-- One row for each API key that has written something. The number is the first half of the key's
-- SHA-256; the key itself is stored nowhere.
CREATE TABLE merchants (
    merchant_id uuid PRIMARY KEY
);

CREATE TABLE orders (
    merchant_id     uuid        NOT NULL,
    trade_no        uuid        NOT NULL, -- version 7: sorts by time of creation
    out_trade_no    text        NOT NULL COLLATE "C",
    amount          bigint      NOT NULL CHECK (amount BETWEEN 1 AND 9999999999),
    -- The refunds that have not failed. The last guard against refunding more than was paid.
    amount_refunded bigint      NOT NULL DEFAULT 0 CHECK (amount_refunded BETWEEN 0 AND amount),
    currency        text        NOT NULL,
    subject         text        NOT NULL,
    return_url      text,
    notify_url      text,
    locale          text,
    metadata        jsonb       NOT NULL,
    status          text        NOT NULL CHECK (status IN ('pending', 'paid', 'refunded', 'closed')),
    checkout_secret text        NOT NULL,
    card_brand      text,
    card_last4      text,
    failure_code    text,
    failure_message text,
    created_at      timestamptz NOT NULL,
    paid_at         timestamptz,
    closed_at       timestamptz,
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (merchant_id, trade_no),
    CONSTRAINT orders_out_trade_no UNIQUE (merchant_id, out_trade_no),
    CHECK (amount_refunded = 0 OR status IN ('paid', 'refunded'))
);

-- For the expiry worker alone, which looks for what is due whoever's it is.
CREATE INDEX orders_due ON orders (expires_at) WHERE status = 'pending';

CREATE TABLE refunds (
    merchant_id     uuid        NOT NULL,
    refund_no       uuid        NOT NULL, -- version 7: sorts by time of creation
    out_refund_no   text        NOT NULL COLLATE "C",
    trade_no        uuid        NOT NULL,
    out_trade_no    text        NOT NULL COLLATE "C",
    amount          bigint      NOT NULL CHECK (amount BETWEEN 1 AND 9999999999),
    currency        text        NOT NULL,
    reason          text,
    notify_url      text,
    metadata        jsonb       NOT NULL,
    status          text        NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
    failure_code    text,
    failure_message text,
    created_at      timestamptz NOT NULL,
    succeeded_at    timestamptz,
    PRIMARY KEY (merchant_id, refund_no),
    CONSTRAINT refunds_out_refund_no UNIQUE (merchant_id, out_refund_no)
);

CREATE INDEX refunds_of_order ON refunds (merchant_id, trade_no, refund_no);

-- The outbox: an event is written in the transaction of the change that it tells.
CREATE TABLE events (
    merchant_id uuid        NOT NULL,
    event_id    uuid        NOT NULL, -- version 7: orders the events of one order
    event_type  text        NOT NULL,
    trade_no    uuid        NOT NULL,
    notify_url  text,
    payload     text        NOT NULL, -- the bytes that are signed and sent, so not jsonb
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (merchant_id, event_id)
);

-- One row for each key in use. A claim is committed before the work starts, so that a duplicate sees it
-- at once; the work, and the response stored here, commit together.
CREATE TABLE idempotency_keys (
    merchant_id   uuid        NOT NULL,
    key           text        NOT NULL COLLATE "C",
    fingerprint   bytea       NOT NULL, -- SHA-256 of the three columns below
    method        text        NOT NULL,
    target        text        NOT NULL,
    request_body  bytea       NOT NULL, -- kept to explain what changed in another request
    -- in_progress: somebody holds a lease; completed: a response is stored; released: the work ended
    -- with an unknown outcome, and the next request with this fingerprint runs it again.
    state         text        NOT NULL DEFAULT 'in_progress'
                              CHECK (state IN ('in_progress', 'completed', 'released')),
    fence         bigint      NOT NULL DEFAULT 1, -- raised by every claim; only its holder may write
    lease_until   timestamptz NOT NULL,           -- real time, of the database's clock
    request_id    uuid        NOT NULL,           -- of the request that holds or completed the key
    status        smallint,
    response_body bytea,
    created_at    timestamptz NOT NULL,           -- of the first request
    PRIMARY KEY (merchant_id, key),
    CHECK ((state = 'completed') = (status IS NOT NULL AND response_body IS NOT NULL))
) WITH (fillfactor = 50); -- room for the completing update on the same page: no index entry is written

CREATE INDEX idempotency_keys_age ON idempotency_keys (merchant_id, created_at);
