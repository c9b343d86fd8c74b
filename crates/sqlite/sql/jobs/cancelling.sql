-- Whether a running job is not wanted any more: then it is not put back.
SELECT cancelling FROM tidemill_running WHERE seq = ?1
