-- Of use only where an instance is asked for: while the table is empty, a planner would read it whole by this index to
-- find the rows of a merchant, and keep that plan.
DROP INDEX journal_writers_instance;
CREATE INDEX journal_writers_instance ON journal_writers (instance_id) WHERE instance_id IS NOT NULL;
