-- The journal counts what it stores, says what it lacks, and says who may still be writing it.

ALTER TABLE requests
    ADD COLUMN bytes      integer, -- how much text the entry holds, its headers included
    ADD COLUMN body_hash  bigint,  -- of the body as it was sent, which may be longer than what is kept; null: not all of it came
    ADD COLUMN code       text,    -- the error's, as answered
    -- The numbers of the orders and refunds in the answer, those of a list included: the gateway's and the
    -- merchant's in turn.
    ADD COLUMN answer_nos text[] NOT NULL DEFAULT '{}';

UPDATE requests
SET bytes = octet_length(path) + octet_length(request_headers::text) + octet_length(request_body)
            + octet_length(response_body),
    body_hash = ('x' || left(encode(sha256(convert_to(request_body, 'UTF8')), 'hex'), 16))::bit(64)::bigint,
    code = CASE WHEN status >= 400 THEN substring(response_body FROM '"code":"([a-z0-9_]+)"') END;

ALTER TABLE requests ALTER COLUMN bytes SET NOT NULL;

-- What a merchant's journal holds and lacks: written with its entries, so that keeping it in bounds costs what is
-- deleted.
CREATE TABLE journals (
    merchant_id    uuid   PRIMARY KEY,
    entries        bigint NOT NULL,
    bytes          bigint NOT NULL,
    dropped        bigint NOT NULL, -- entries that could not be kept under overload
    missing_before timestamptz      -- calls that were received before, in real time, may be missing; null: none is
);

INSERT INTO journals (merchant_id, entries, bytes, dropped)
SELECT merchant_id, count(*), sum(bytes), 0 FROM requests GROUP BY merchant_id;

-- The instances that have answered a merchant's calls lately, and so may have entries that are not written yet. A
-- row is there before the first answer, and goes once the instance has written all and rests.
CREATE TABLE journal_writers (
    merchant_id  uuid        NOT NULL,
    instance_id  uuid        NOT NULL,
    opening      uuid        NOT NULL, -- who opened it anew keeps it
    announced_at timestamptz NOT NULL,
    PRIMARY KEY (merchant_id, instance_id)
);

CREATE INDEX journal_writers_instance ON journal_writers (instance_id);

-- How far each instance that writes journals has come. It is no merchant's.
CREATE TABLE instances (
    instance_id     uuid        PRIMARY KEY,
    written_through timestamptz NOT NULL, -- every call that was answered before is written
    alive_until     timestamptz NOT NULL  -- a row that is older is of a process that has died
);

CREATE INDEX instances_alive ON instances (alive_until);
