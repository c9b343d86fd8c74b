-- Adds jobs with links to a stream, to chains they wait for or with a deduplication key: each once,
-- all or none.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, queues, then those that
--       jobs give by number
-- ARGV  one map: channel, queue, receipt_ttl (ms), jobs: id, due, envelope, record and receipt (keys)
--       of each, key if it has one and, if it waits, wait_id, waits (key) and blockers: how ('here',
--       'away' or 'told') and value (its chain or its notice) of each
-- Returns 1 for each job that is new or was added by an earlier try of the call, 0 for each that
-- existed; then the outbox entries. Or, with nothing written, a word and a chain: 'busy' if the
-- waiters of the chain with this id are not yet notified, so that the id cannot be reused yet;
-- 'moved' if a blocker of this shard is not open.
local args = cmsgpack.unpack(ARGV[1])
local shard = shard_context(args.channel)
local queue = { kind = 's', name = args.queue, target = KEYS[6], scheduled = KEYS[7], blocked = KEYS[8],
  jobs = shard.jobs }
expect_shard(shard)
expect_queue(queue)
expect_type(KEYS[9], 'set')
local earlier = {}
for _, job in ipairs(args.jobs) do
  job.chain, job.origin = chain_of(job.id), 'new'
  job.is_made = redis.call('EXISTS', KEYS[job.receipt]) == 1
  job.exists = job.is_made or earlier[job.chain] or redis.call('HEXISTS', shard.jobs, job.chain) == 1
    or redis.call('EXISTS', KEYS[job.record]) == 1
  if not job.exists and redis.call('HEXISTS', shard.notices, job.chain) == 1 then
    return { 'busy', job.chain }
  end
  if job.wait_id then
    job.waits = KEYS[job.waits]
    expect_type(job.waits, 'hash')
    for _, blocker in ipairs(job.blockers) do
      local chain = blocker.value
      if blocker.how == 'here' and not (job.exists or earlier[chain] or is_open(shard, chain)) then
        return { 'moved', chain }
      end
    end
  end
  earlier[job.chain] = true
end
local time, out = now(), {}
for n, job in ipairs(args.jobs) do
  out[n] = (job.is_made or not job.exists) and 1 or 0
  if not job.exists then
    job.at = due_at(job.due, time)
    if job.wait_id then
      block_job(queue, shard, job, time)
    else
      put_job(queue, job.chain, true, job.envelope, job.at, time)
    end
    if job.key then redis.call('HSET', shard.keyed, job.chain, job.key) end
    redis.call('SET', KEYS[job.receipt], 1, 'PX', args.receipt_ttl)
  end
end
redis.call('SADD', KEYS[9], 's ' .. queue.name)
announce_earlier(queue, shard.channel)
return with_outbox(out, shard)
