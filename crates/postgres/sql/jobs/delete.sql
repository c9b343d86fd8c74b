-- Deletes a chain unless a job waits for it. functions/delete_chain.sql documents the locks.
--
-- $1 chain
SELECT outcome, waiter, lost FROM tidemill.delete_chain($1)
