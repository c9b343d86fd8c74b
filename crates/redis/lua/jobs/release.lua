-- Settles list jobs, each atomically and fenced by its lock. A job that was never locked has a
-- token that begins with 'u'. The token is kept if the job stays in the store, so that a repeat has
-- no effect.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, dlq, cancelled, running, queues,
--       target, scheduled and blocked of the queue where chains continue, released, then per
--       settlement: lock, the KEYS of a change
-- ARGV  channel, queue, the queue where chains continue ('' if none does), mode ('settle' or
--       'rescue'), ms for which a token is kept, then per settlement: token, and the ARGV of a
--       change
-- Mode 'rescue' accepts a job only if its lock is gone and its running entry is unchanged.
-- Returns for each: 1 accepted or 0 lease lost; then the outbox entries.
local shard, mode = shard_context(), ARGV[4]
local queue = { kind = 'l', name = ARGV[2], target = KEYS[6], scheduled = KEYS[7], dlq = KEYS[8],
  cancelled = KEYS[9],
  jobs = shard.jobs }
queue.next = { kind = 's', name = ARGV[3], target = KEYS[12], scheduled = KEYS[13], blocked = KEYS[14],
  jobs = shard.jobs }
local out, released, i, k = {}, KEYS[15], 6, 16
expect_shard(shard)
expect_queue(queue)
expect_type(queue.cancelled, 'hash')
expect_type(KEYS[10], 'hash')
expect_type(KEYS[11], 'set')
expect_type(released, 'zset')
if queue.next.name ~= '' then expect_queue(queue.next) end
local all = {}
while i <= #ARGV do
  local token, lock, settlement = ARGV[i], KEYS[k], nil
  settlement, i, k = read_change(i + 1, k + 1)
  settlement.token, settlement.lock = token, lock
  all[#all + 1] = settlement
end

-- Whether this is the first settlement of a job that was never locked. One that leaves nothing may
-- repeat.
local time = now()
local function is_first(settlement)
  if settlement.op == 'finish' then return true end
  if redis.call('ZADD', released, 'NX', int_text(time), settlement.token .. ' ' .. settlement.id) == 0 then
    return false
  end
  redis.call('PEXPIRE', released, ARGV[5])
  return true
end

for n, settlement in ipairs(all) do
  local token, unlocked, held, accepted = settlement.token, string.sub(settlement.token, 1, 1) == 'u',
    redis.pcall('GET', settlement.lock), false
  if mode == 'rescue' then
    local trace = redis.call('HGET', KEYS[10], settlement.id)
    accepted = not held and trace and string.match(trace, '^%d+') == token
  else
    accepted = unlocked and is_first(settlement) or held == token
  end
  if accepted then
    if not unlocked then
      redis.call('DEL', settlement.lock)
      redis.call('HDEL', KEYS[10], settlement.id)
    end
    settlement.lost = mode == 'rescue'
    if settlement.lost then shard.ended[#shard.ended + 1] = 'lost ' .. settlement.id end
    apply_change(queue, shard, settlement)
  end
  out[n] = accepted and 1 or 0
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', released, '-inf', int_text(time - tonumber(ARGV[5])),
  'LIMIT', 0, 1000)) do
  redis.call('ZREM', released, old)
end
if queue.next.name ~= '' then redis.call('SADD', KEYS[11], 's ' .. queue.next.name) end
announce_earlier(queue, shard.channel)
announce_earlier(queue.next, shard.channel)
publish_ended(shard)
return with_outbox(out, shard)
