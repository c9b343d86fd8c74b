-- Notes one of the chains a job waits for: its number, or what it told. Whoever closes the chain holds the same write
-- lock, so it has closed before this, and then it has told, or it will find this row.
INSERT INTO tidemill_blocks (waiter, position, blocker, told) VALUES (?1, ?2, ?3, ?4)
