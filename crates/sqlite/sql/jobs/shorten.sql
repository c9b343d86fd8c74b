-- After the clock was set back no lease ends later than this, until it is extended. Every worker that notices the step does
-- this: a limit changes nothing the second time, and leaves alone what was extended since.
UPDATE tidemill_running SET until = ?1 WHERE until > ?1
