-- Settles jobs of one queue, each atomically and fenced by its lease: an entry of a stream, or the
-- lock of a list job. `finish.lua` is the fast path for entries whose jobs only finish.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, dlq, cancelled, leases, running,
--       queues, released, then those that changes give by number
-- ARGV  one map: channel, kind ('s' or 'l'), queue, group, expired (settles only expired leases),
--       default_lease (ms, of a consumer without a recorded one), released_ttl (ms), settlements: the
--       token, and a change as `check_change` has it
-- The token is the entry, or the value of the lock. That of a job that was never locked begins with
-- 'u'; it is kept if the job stays in the store, so that a repeat has no effect.
-- Returns for each: 1 accepted or 0 lease lost; then the outbox entries.
local args, time = cmsgpack.unpack(ARGV[1]), now()
local shard, leases, running, released = shard_context(args.channel), KEYS[10], KEYS[11], KEYS[13]
local is_stream = args.kind == 's'
local queue = { kind = args.kind, name = args.queue, target = KEYS[6], scheduled = KEYS[7], dlq = KEYS[8],
  cancelled = KEYS[9], jobs = shard.jobs }
expect_shard(shard)
expect_queue(queue)
expect_type(queue.cancelled, 'hash')
expect_type(is_stream and leases or running, 'hash')
expect_type(KEYS[12], 'set')
if not is_stream then expect_type(released, 'zset') end
for _, settlement in ipairs(args.settlements) do check_change(queue, shard, settlement) end

-- Gives up the lease on an entry; returns whether it was held. The number of acknowledged entries is
-- the fence.
local function end_entry(settlement)
  local entry = settlement.token
  if args.expired then
    local pending = pending_entry(queue.target, args.group, entry)
    if not pending then return false end
    local worker = string.gsub(pending[2], '%+held$', '')
    local lease = tonumber(redis.call('HGET', leases, worker) or '') or args.default_lease
    if pending[3] < lease then return false end
  end
  if redis.call('XACK', queue.target, args.group, entry) == 0 then return false end
  redis.call('XDEL', queue.target, entry)
  settlement.entry = entry
  return true
end

-- Whether this is the first settlement of a job that was never locked. One that leaves nothing may
-- repeat.
local function is_first(settlement)
  if settlement.op == 'finish' then return true end
  local member = settlement.token .. ' ' .. settlement.job
  if redis.call('ZADD', released, 'NX', int_text(time), member) == 0 then return false end
  redis.call('PEXPIRE', released, args.released_ttl)
  return true
end

-- Gives up the lock of a list job; returns whether it was held. An expired one is gone, and its
-- running entry is unchanged.
local function end_lock(settlement)
  local token, lock = settlement.token, queue.target .. ':lock:' .. settlement.job
  local is_unlocked, held = string.sub(token, 1, 1) == 'u', redis.pcall('GET', lock)
  if args.expired then
    local trace = redis.call('HGET', running, settlement.job)
    if held or not trace or string.match(trace, '^%d+') ~= token then return false end
  elseif is_unlocked then
    return is_first(settlement)
  elseif held ~= token then
    return false
  end
  redis.call('DEL', lock)
  redis.call('HDEL', running, settlement.job)
  return true
end

local end_lease, out = is_stream and end_entry or end_lock, {}
for i, settlement in ipairs(args.settlements) do
  out[i] = 0
  if end_lease(settlement) then
    out[i] = 1
    settlement.lost = args.expired
    if args.expired then shard.ended[#shard.ended + 1] = 'lost ' .. settlement.job end
    apply_change(queue, shard, settlement)
  end
end
if not is_stream then
  local old = redis.call('ZRANGEBYSCORE', released, '-inf', int_text(time - args.released_ttl), 'LIMIT', 0,
    1000)
  for _, member in ipairs(old) do redis.call('ZREM', released, member) end
end
announce_earlier(queue, shard.channel)
register_next_queues(shard, KEYS[12])
publish_ended(shard)
return with_outbox(out, shard)
