-- The oldest closed runs of a type beyond the latest ?3, except those that closed after ?4.
-- Skipping the latest reads the index only. If there are no more than those, the inner query
-- returns no row.
SELECT number FROM tidemill_runs
WHERE workflow = ?1 AND closed <= ?4 AND (closed, number) <= (
    SELECT closed, number FROM tidemill_runs WHERE workflow = ?1 AND closed IS NOT NULL
    ORDER BY closed DESC, number DESC LIMIT 1 OFFSET ?3)
ORDER BY closed, number LIMIT ?2
