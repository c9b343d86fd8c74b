-- Leases that end by the clock as it was before it was set back end when they would have.
UPDATE tidemill_running SET until = until - (?2 - ?1) WHERE until >= ?2
