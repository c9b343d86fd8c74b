-- Members leave, with everything they have. Those that are not there are not missed.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then members
for i = 6, #ARGV do leave(ARGV[i]) end
return finish(0)
