-- Stores one of the chains that a job waits for: its number, or its notice. The transaction that
-- closes the chain needs the same write lock. So it has either stored its notice before this, or
-- will find this row.
INSERT INTO tidemill_blocks (waiter, position, blocker, told) VALUES (?1, ?2, ?3, ?4)
