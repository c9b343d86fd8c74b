-- Extends a lease, if it is still the current one.
UPDATE tidemill_running SET until = ?3 WHERE seq = ?1 AND token = ?2 RETURNING cancelling
