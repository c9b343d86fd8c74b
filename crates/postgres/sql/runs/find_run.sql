-- The run that has a key. Locks nothing.
--
-- $1 workflow   $2 key
SELECT run FROM run_keys WHERE workflow = $1 AND key = $2
