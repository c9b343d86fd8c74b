-- Requests cancellation of a running list job that is in no index.
-- KEYS  untracked, cancelled
-- ARGV  channel, job id
-- Returns 1 if it runs, else 0 with nothing written.
local till = string.match(redis.call('HGET', KEYS[1], ARGV[2]) or '', '^%d+')
if not till or tonumber(till) <= now() then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], 1)
notify(ARGV[1], 'cancel ' .. ARGV[2])
return 1
