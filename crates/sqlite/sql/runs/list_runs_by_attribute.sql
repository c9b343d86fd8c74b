-- The newest runs with an attribute within a window.
SELECT started, run FROM tidemill_run_attributes
WHERE name = :name AND value = :value AND started >= :since AND (started, run) < (:below_started, :below_number)
ORDER BY started DESC, run DESC LIMIT :limit
