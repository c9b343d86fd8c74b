-- The oldest runs of a type that have ended, up to the one that has the latest so many after it, and none that has ended
-- after a time. Skipping the latest reads the index only; if there are no more than those, there is no such one.
SELECT number FROM tidemill_runs
WHERE workflow = ?1 AND closed <= ?4 AND (closed, number) <= (
    SELECT closed, number FROM tidemill_runs WHERE workflow = ?1 AND closed IS NOT NULL
    ORDER BY closed DESC, number DESC LIMIT 1 OFFSET ?3)
ORDER BY closed, number LIMIT ?2
