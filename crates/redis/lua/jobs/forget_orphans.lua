-- Removes orphans from the index: jobs that are neither in the list, which is empty, nor running.
-- KEYS  jobs, waiters, notices, errands, keyed, list, running
-- ARGV  one map: channel, queue, chains
-- Returns how many were removed, then the outbox entries.
local args, forgotten = cmsgpack.unpack(ARGV[1]), 0
local shard = shard_context(args.channel)
expect_shard(shard)
expect_type(KEYS[7], 'hash')
if redis.call('LLEN', KEYS[6]) > 0 then return { 0 } end
for _, chain in ipairs(args.chains) do
  if redis.call('HGET', shard.jobs, chain) == 'l ' .. args.queue
    and redis.call('HEXISTS', KEYS[7], chain) == 0 then
    redis.call('HDEL', shard.jobs, chain)
    close_chain(shard, chain, '', 0)
    shard.ended[#shard.ended + 1] = 'finished ' .. chain
    forgotten = forgotten + 1
  end
end
publish_ended(shard)
return with_outbox({ forgotten }, shard)
