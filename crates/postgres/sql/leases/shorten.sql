-- Leases that end by the clock as it was before it was set back end when they would have.
--
-- $1 what the clock would show
UPDATE leases SET until = until - ($1 - now_ms()) WHERE until >= $1
