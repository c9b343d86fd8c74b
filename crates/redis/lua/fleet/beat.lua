-- Records heartbeats of workers, with their descriptions. A worker that is unknown is added with
-- the sessions it has, and gets no new one for a grace period. So is one whose heartbeat is late or
-- went to another run of the server: clients may hold leases that could not be extended or that are
-- lost.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with grace (ms) and workers
-- Returns for each: 1 if it is to drain, else 0; its number of sessions; how many it has ever had.
local grace, all, out = args.grace, described_workers(), {}

local function add_worker(worker)
  redis.call('HSET', LIFETIME, worker.id,
    int_text(math.max(lifetime_count(worker.id), active_count(worker.id))))
  redis.call('ZREM', GRACE, worker.id)
  if grace > 0 then redis.call('ZADD', GRACE, int_text(TIME + grace), worker.id) end
end

-- Ends an expired grace period, without waiting for a lease to notice.
local function end_grace(worker)
  local ends = redis.call('ZSCORE', GRACE, worker.id)
  if ends and tonumber(ends) <= TIME then redis.call('ZREM', GRACE, worker.id) end
end

for _, worker in ipairs(all) do
  local before, is_known = load_worker(worker.id), index_entry(worker.id)
    and redis.call('TYPE', WORKER .. worker.id).ok == 'hash'
  if before and not (before.is_fresh and before.is_sure) then is_known = false end
  write_worker(worker)
  if is_known then end_grace(worker) else add_worker(worker) end
  redis.call('HSETNX', LIFETIME, worker.id, active_count(worker.id))
  publish_count(worker.id)
  if index_worker(worker) and has_waiting(worker.kind) then add_wake('places ' .. worker.kind) end
  out[#out + 1] = is_drain_ordered(worker.id) and 1 or 0
  out[#out + 1] = active_count(worker.id)
  out[#out + 1] = int_text(lifetime_count(worker.id))
end
return reply_with(out)
