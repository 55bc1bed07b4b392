-- A fault can hold an attempt to deliver an event back, once.

ALTER TABLE events
    ADD COLUMN delayed boolean NOT NULL DEFAULT false; -- the next attempt was held back already
