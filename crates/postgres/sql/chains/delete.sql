-- Deletes a chain unless it is awaited; functions/delete_chain.sql says what it locks.
--
-- $1 chain
SELECT outcome, waiter, lost FROM tidemill.delete_chain($1)
