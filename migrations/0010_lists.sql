-- A list that a filter narrows is read from an index, however rare what it looks for is.

-- A status changes a few times in an order's life, and each change writes all indexes anyway.
CREATE INDEX orders_in_status ON orders (merchant_id, status, trade_no);
CREATE INDEX events_in_status ON events (merchant_id, status, event_type, event_id);
