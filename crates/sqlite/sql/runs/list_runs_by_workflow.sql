-- The newest runs of a type and a status within a window.
SELECT started, number FROM tidemill_runs
WHERE workflow = :workflow AND status = :status AND started >= :since AND (started, number) < (:below_started, :below_number)
ORDER BY started DESC, number DESC LIMIT :limit
