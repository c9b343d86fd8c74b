-- The notices that a job has received, in the order in which it named the chains.
SELECT told FROM tidemill_blocks WHERE waiter = ?1 ORDER BY position
