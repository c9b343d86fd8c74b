-- Orders a worker to accept no more sessions and to leave when it has none.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then: worker
-- Returns 1 if it existed, else 0 with nothing written.
local id = ARGV[6]
local worker = load_worker(id)
if not worker then return 0 end
order_drain(worker)
if index_entry(id) then index_worker(worker) end
add_wake('member ' .. id)
return reply_with(1)
