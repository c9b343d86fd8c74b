-- The run that has a key. Locks nothing. It is sent as it is written, because existing schemas have
-- no function for it, and a look-up by the primary key needs no settings.
--
-- $1 workflow   $2 key
SELECT run FROM tidemill.run_keys WHERE workflow = $1 AND key = $2
