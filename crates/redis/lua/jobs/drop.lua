-- Deletes letters for good.
-- KEYS  dlq, jobs
-- ARGV  per letter: entry, job id
-- Returns how many there were.
local dropped = 0
for i = 1, #ARGV, 2 do
  if redis.call('XDEL', KEYS[1], ARGV[i]) == 1 then
    redis.call('HDEL', KEYS[2], ARGV[i + 1])
    dropped = dropped + 1
  end
end
return dropped
