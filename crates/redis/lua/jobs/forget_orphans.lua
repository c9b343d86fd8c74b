-- Removes orphans from the index: jobs that are neither in the list, which is empty, nor running.
-- KEYS  jobs, waiters, notices, errands, keyed, list, running
-- ARGV  channel, queue, then chains
-- Returns how many were removed, then the outbox entries.
local shard, forgotten = shard_context(), 0
expect_shard(shard)
expect_type(KEYS[7], 'hash')
if redis.call('LLEN', KEYS[6]) > 0 then return { 0 } end
for i = 3, #ARGV do
  local chain = ARGV[i]
  if redis.call('HGET', shard.jobs, chain) == 'l ' .. ARGV[2]
    and redis.call('HEXISTS', KEYS[7], chain) == 0 then
    redis.call('HDEL', shard.jobs, chain)
    close_chain(shard, chain, '', 0)
    shard.ended[#shard.ended + 1] = 'finished ' .. chain
    forgotten = forgotten + 1
  end
end
publish_ended(shard)
return with_outbox({ forgotten }, shard)
