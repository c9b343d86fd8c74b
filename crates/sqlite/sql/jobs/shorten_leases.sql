-- After the clock was set back: limits how long leases last. Every worker that detects the step
-- runs this. The second run changes nothing, and leases extended since stay as they are.
UPDATE tidemill_running SET until = ?1 WHERE until > ?1
