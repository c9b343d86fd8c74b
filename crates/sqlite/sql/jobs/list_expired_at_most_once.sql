-- Running jobs of an at-most-once queue whose lease has expired. No worker will settle them.
SELECT seq FROM tidemill_running WHERE queue = ?1 AND until <= ?2 LIMIT ?3
