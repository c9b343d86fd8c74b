-- Deletes letters for good, each with its chain.
-- KEYS  jobs, waiters, notices, errands, keyed, dlq
-- ARGV  channel, then per letter: entry, job id
-- Returns how many there were, then the errands that are owed.
local h, dropped = home(), 0
expect_home(h)
for i = 2, #ARGV, 2 do
  if redis.call('XDEL', KEYS[6], ARGV[i]) == 1 then
    local chain = chain_of(ARGV[i + 1])
    -- What the index has under this id may be another job.
    local indexed = redis.call('HGET', h.jobs, chain)
    if not indexed or string.sub(indexed, -#ARGV[i] - 1) == ' ' .. ARGV[i] then
      redis.call('HDEL', h.jobs, chain)
      close(h, chain, '', 0)
    end
    dropped = dropped + 1
  end
end
return with_owed({ dropped }, h)
