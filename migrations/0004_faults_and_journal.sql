-- Faults that a merchant has asked for, and the journal of its calls.

CREATE TABLE faults (
    merchant_id   uuid             NOT NULL,
    fault_id      uuid             NOT NULL, -- version 7: of several rules that match, the oldest strikes
    kind          text             NOT NULL,
    method        text,
    path          text,
    out_trade_no  text,
    out_refund_no text,
    event_type    text,
    delay_ms      bigint,
    status        bigint,
    retry_after   bigint,
    times         bigint           CHECK (times >= 1), -- null: without end
    probability   double precision CHECK (probability BETWEEN 0 AND 1),
    seed          bigint           NOT NULL,
    drawn         bigint           NOT NULL DEFAULT 0, -- how many occasions have matched
    fired         bigint           NOT NULL DEFAULT 0 CHECK (times IS NULL OR fired <= times),
    created_at    timestamptz      NOT NULL,
    PRIMARY KEY (merchant_id, fault_id)
);

-- The journal: every call under /v1, written after its answer and apart from its transaction.
CREATE TABLE requests (
    merchant_id     uuid        NOT NULL,
    request_id      uuid        NOT NULL, -- version 7: sorts by the time of arrival
    at              timestamptz NOT NULL, -- in the merchant's time
    received_at     timestamptz NOT NULL, -- in real time
    duration_ms     bigint      NOT NULL,
    method          text        NOT NULL,
    path            text        NOT NULL, -- with its query
    idempotency_key text,
    request_headers jsonb       NOT NULL,
    request_body    text        NOT NULL,
    order_nos       text[]      NOT NULL, -- the numbers that the call names, the merchant's and the gateway's
    refund_nos      text[]      NOT NULL,
    outcome         text        NOT NULL,
    fault           text,
    status          smallint,
    response_body   text        NOT NULL,
    answered        boolean     NOT NULL,
    client_hung_up  boolean     NOT NULL,
    PRIMARY KEY (merchant_id, request_id)
);
