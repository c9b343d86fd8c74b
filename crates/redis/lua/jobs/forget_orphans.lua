-- Forgets jobs of a list that are still neither in the list, which is empty, nor with a runner.
-- KEYS  jobs, waiters, notices, errands, keyed, list, running
-- ARGV  channel, queue, then chains
-- Returns how many there were, then the errands that are owed.
local h, forgotten = home(), 0
expect_home(h)
expect(KEYS[7], 'hash')
if redis.call('LLEN', KEYS[6]) > 0 then return { 0 } end
for i = 3, #ARGV do
  local chain = ARGV[i]
  if redis.call('HGET', h.jobs, chain) == 'l ' .. ARGV[2] and redis.call('HEXISTS', KEYS[7], chain) == 0 then
    redis.call('HDEL', h.jobs, chain)
    close(h, chain, '', 0)
    h.ended[#h.ended + 1] = 'finished ' .. chain
    forgotten = forgotten + 1
  end
end
publish_ends(h)
return with_owed({ forgotten }, h)
