-- Adds workers, without anything that an earlier worker of the same name left.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with workers
-- Returns how many.
local all = described_workers()
for _, worker in ipairs(all) do
  -- ZADD first: a server without memory refuses it, and then nothing has changed.
  redis.call('ZADD', MEMBERS, 0, worker.id)
  remove_worker(worker.id)
  worker.status, worker.is_available = 'available', true
  write_worker(worker)
  redis.call('HSET', LIFETIME, worker.id, 0)
  publish_count(worker.id)
  index_worker(worker)
  if worker.concurrent > 0 then add_wake('places ' .. worker.kind) end
end
return reply_with(#all)
