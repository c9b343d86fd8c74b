-- The cheapest table that a durable queue can have: no names, no order except arrival, no index.
CREATE TABLE IF NOT EXISTS tidemill_floor (seq INTEGER PRIMARY KEY, taken INTEGER NOT NULL DEFAULT 0, envelope BLOB NOT NULL)
