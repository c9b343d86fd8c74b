-- Whether a running job is to be cancelled. Then it is not put back.
SELECT cancelling FROM tidemill_running WHERE seq = ?1
