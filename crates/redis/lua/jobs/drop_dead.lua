-- Deletes dead letters, each with its chain.
-- KEYS  jobs, waiters, notices, errands, keyed, dlq
-- ARGV  one map: channel, letters: entry and job of each
-- Returns how many were deleted, then the outbox entries.
local args, dropped = cmsgpack.unpack(ARGV[1]), 0
local shard = shard_context(args.channel)
expect_shard(shard)
for _, letter in ipairs(args.letters) do
  if redis.call('XDEL', KEYS[6], letter.entry) == 1 then
    local chain = chain_of(letter.job)
    -- The index may have another job under this id.
    local indexed = redis.call('HGET', shard.jobs, chain)
    if not indexed or string.sub(indexed, -#letter.entry - 1) == ' ' .. letter.entry then
      redis.call('HDEL', shard.jobs, chain)
      close_chain(shard, chain, '', 0)
    end
    dropped = dropped + 1
  end
end
return with_outbox({ dropped }, shard)
