-- Repeats the enqueue of untracked jobs whose answer was lost: the first call left its number in the receipt if it took
-- place.
-- KEYS  target, queues, receipt
-- ARGV  kind ('s' or 'l'), queue, number of the call, receipt's life in ms, then envelopes
-- Returns 1 if the jobs are new, 0 if they were there.
local last = redis.call('GET', KEYS[3])
if last and tonumber(string.match(last, '^%d+')) >= tonumber(ARGV[3]) then
  -- A write, so that replicas which confirm it have the jobs as well.
  redis.call('PEXPIRE', KEYS[3], ARGV[4])
  return 0
end
for i = 5, #ARGV do
  if ARGV[1] == 's' then redis.call('XADD', KEYS[1], '*', 'data', ARGV[i]) else redis.call('LPUSH', KEYS[1], ARGV[i]) end
end
redis.call('SADD', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
redis.call('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])
return 1
