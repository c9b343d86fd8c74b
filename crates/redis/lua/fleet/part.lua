-- Removes workers and all their keys. Ignores unknown workers.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then workers
for i = 6, #ARGV do remove_worker(ARGV[i]) end
return reply_with(0)
