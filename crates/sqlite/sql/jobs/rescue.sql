-- Ends a lease if it is the current one and has run out and was not extended since someone looked.
DELETE FROM tidemill_running WHERE seq = ?1 AND token = ?2 AND until <= ?3
