-- A path with its query has one name, as in the journal.
ALTER TABLE idempotency_keys RENAME COLUMN target TO path;
