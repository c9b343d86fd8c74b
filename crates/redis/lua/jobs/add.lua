-- Adds jobs to a stream whose ids were made for this very call, all due now: all of them or none, and once however often
-- it is called. The hot path of enqueueing. Nothing can have such an id, so nothing is asked about each; what would fail
-- half-way fails before.
-- KEYS  stream, jobs, queues, receipt
-- ARGV  queue, number of the call, life of its receipt in ms, then per job: chain, envelope
-- Returns how many were added: none by a repeat.
local stream, jobs, queues, receipt, member = KEYS[1], KEYS[2], KEYS[3], KEYS[4], 's ' .. ARGV[1]
local call, index, place = redis.call, {}, member .. ' '
local last = call('GET', receipt)
if last and tonumber(string.match(last, '^%d+')) >= tonumber(ARGV[2]) then
  -- A write, so that replicas which confirm it have the jobs as well.
  call('PEXPIRE', receipt, ARGV[3])
  return 0
end
call('HLEN', jobs)
local is_known = call('SISMEMBER', queues, member) == 1
for i = 4, #ARGV, 2 do
  index[i - 3] = ARGV[i]
  index[i - 2] = place .. call('XADD', stream, '*', 'data', ARGV[i + 1])
end
call('HSET', jobs, unpack(index))
if not is_known then call('SADD', queues, member) end
call('SET', receipt, ARGV[2], 'PX', ARGV[3])
return #index / 2
