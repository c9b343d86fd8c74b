-- After the clock was set back: limits how long leases last. Every worker that detects the step
-- runs this. The second run changes nothing, and leases extended since stay as they are.
--
-- $1 limit in ms
UPDATE leases SET until = now_ms() + $1 WHERE until > now_ms() + $1
