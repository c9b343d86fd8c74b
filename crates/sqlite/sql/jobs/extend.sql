-- Moves a lease's end, if the lease is still the current one.
UPDATE running SET until = ?3 WHERE seq = ?1 AND token = ?2 RETURNING cancelling
