-- Adds jobs to a stream whose ids were made for this very call, all due now: all of them or none. The hot path of
-- enqueueing. Nothing can have such an id, so nothing is asked about each; what would fail half-way fails before.
-- KEYS  stream, jobs, queues
-- ARGV  queue, then per job: chain, envelope
-- Returns how many were added.
local stream, jobs, queues, member = KEYS[1], KEYS[2], KEYS[3], 's ' .. ARGV[1]
local call, index, place = redis.call, {}, member .. ' '
call('HLEN', jobs)
local is_known = call('SISMEMBER', queues, member) == 1
for i = 2, #ARGV, 2 do
  index[i - 1] = ARGV[i]
  index[i] = place .. call('XADD', stream, '*', 'data', ARGV[i + 1])
end
call('HSET', jobs, unpack(index))
if not is_known then call('SADD', queues, member) end
return #index / 2
