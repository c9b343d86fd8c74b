-- Jobs of an at-most-once queue whose lease has run out: nobody will end them any more.
SELECT seq FROM tidemill_running WHERE queue = ?1 AND until <= ?2 LIMIT ?3
