-- Orders a worker to accept no more sessions and to leave when it has none.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with worker
-- Returns 1 if it existed, else 0 with nothing written.
local id = args.worker
local worker = load_worker(id)
if not worker then return 0 end
order_drain(worker)
if index_entry(id) then index_worker(worker) end
add_wake('member ' .. id)
return reply_with(1)
