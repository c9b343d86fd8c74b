-- The newest runs of a status within a window. Served by one index, as the other lists are.
SELECT started, number FROM tidemill_runs
WHERE status = :status AND started >= :since AND (started, number) < (:below_started, :below_number)
ORDER BY started DESC, number DESC LIMIT :limit
