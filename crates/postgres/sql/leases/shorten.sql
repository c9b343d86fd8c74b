-- After the clock was set back no lease lasts longer than the limit, until it is extended. Every worker that notices the step
-- does this: a limit changes nothing the second time, and leaves alone what was extended since.
--
-- $1 limit in ms
UPDATE leases SET until = now_ms() + $1 WHERE until > now_ms() + $1
