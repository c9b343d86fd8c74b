-- Adds untracked jobs: all or none, and once however often it is called, whichever call arrives
-- first.
-- KEYS  target, queues, receipt
-- ARGV  kind ('s' or 'l'), queue, number of the call, TTL of its receipt in ms, then envelopes
-- Returns 1 if the jobs are new, 0 if they existed.
local call, target, number = redis.call, KEYS[1], ARGV[3]
local last, member = call('GET', KEYS[3]), ARGV[1] .. ' ' .. ARGV[2]
if last and tonumber(string.match(last, '^%d+') or 0) >= tonumber(number) then
  -- A write, so that the replicas that confirm it have the jobs as well.
  call('PEXPIRE', KEYS[3], ARGV[4])
  return 0
end
local is_known = call('SISMEMBER', KEYS[2], member) == 1
if ARGV[1] == 's' then
  for i = 5, #ARGV do call('XADD', target, '*', 'data', ARGV[i]) end
else
  for i = 5, #ARGV, 1000 do call('LPUSH', target, unpack(ARGV, i, math.min(i + 999, #ARGV))) end
end
if not is_known then call('SADD', KEYS[2], member) end
call('SET', KEYS[3], number, 'PX', ARGV[4])
return 1
