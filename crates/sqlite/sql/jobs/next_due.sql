-- When the next scheduled job of a queue is due: the first key after now.
SELECT due FROM tidemill_waiting WHERE queue = ?1 AND due > ?2 ORDER BY due LIMIT 1
