-- Repeats the enqueue of untracked jobs whose answer was lost: the first call left a receipt if it took place.
-- KEYS  target, queues, receipt
-- ARGV  kind ('s' or 'l'), queue, receipt's life in ms, then envelopes
-- Returns 1 if the jobs are new, 0 if they were there.
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
for i = 4, #ARGV do
  if ARGV[1] == 's' then redis.call('XADD', KEYS[1], '*', 'data', ARGV[i]) else redis.call('LPUSH', KEYS[1], ARGV[i]) end
end
redis.call('SADD', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
redis.call('SET', KEYS[3], 1, 'PX', ARGV[3])
return 1
