-- Removes workers and all their keys. Ignores unknown workers.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with the ids of workers
for _, id in ipairs(args.workers) do remove_worker(id) end
return reply_with(0)
