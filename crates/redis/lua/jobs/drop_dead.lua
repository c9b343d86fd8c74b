-- Deletes dead letters, each with its chain.
-- KEYS  jobs, waiters, notices, errands, keyed, dlq
-- ARGV  channel, then per dead letter: entry, job id
-- Returns how many were deleted, then the outbox entries.
local shard, dropped = shard_context(), 0
expect_shard(shard)
for i = 2, #ARGV, 2 do
  if redis.call('XDEL', KEYS[6], ARGV[i]) == 1 then
    local chain = chain_of(ARGV[i + 1])
    -- The index may have another job under this id.
    local indexed = redis.call('HGET', shard.jobs, chain)
    if not indexed or string.sub(indexed, -#ARGV[i] - 1) == ' ' .. ARGV[i] then
      redis.call('HDEL', shard.jobs, chain)
      close_chain(shard, chain, '', 0)
    end
    dropped = dropped + 1
  end
end
return with_outbox({ dropped }, shard)
