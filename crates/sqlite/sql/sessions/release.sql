-- A session ends, if this holder has it. One that has run out is left to `sessions/reap.sql`, which counts it.
DELETE FROM tidemill_sessions WHERE id = ?1 AND holder = ?2 AND until > ?3 RETURNING member
