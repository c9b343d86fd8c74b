-- Adds jobs with links to a stream, to chains they wait for or with a deduplication key: each once,
-- all or none.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, queues, then per job:
--       record; receipt; waits if it has a wait id
-- ARGV  channel, queue, TTL of a receipt in ms, then per job: id, due, envelope, key ('' if none),
--       wait id ('' if it waits for nothing) and, with a wait id, the number of blockers, then per
--       blocker: how ('here', 'away' or 'told'), and its chain or its notice
-- Returns 1 for each job that is new or was added by an earlier try of the call, 0 for each that
-- existed; then the outbox entries. Or, with nothing written, a word and a chain: 'busy' if the
-- waiters of the chain with this id are not yet notified, so that the id cannot be reused yet;
-- 'moved' if a blocker of this shard is not open.
local shard = shard_context()
local queue = { kind = 's', name = ARGV[2], target = KEYS[6], scheduled = KEYS[7], blocked = KEYS[8],
  jobs = shard.jobs }
expect_shard(shard)
expect_queue(queue)
expect_type(KEYS[9], 'set')
local jobs, earlier, i, k = {}, {}, 4, 10
while i <= #ARGV do
  local job = { id = ARGV[i], chain = chain_of(ARGV[i]), due = ARGV[i + 1], envelope = ARGV[i + 2],
    key = ARGV[i + 3],
    mark = ARGV[i + 4], record = KEYS[k], origin = 'new', after = {} }
  job.receipt, i, k = KEYS[k + 1], i + 5, k + 2
  job.made = redis.call('EXISTS', job.receipt) == 1
  job.there = job.made or earlier[job.chain] or redis.call('HEXISTS', shard.jobs, job.chain) == 1
    or redis.call('EXISTS', job.record) == 1
  if not job.there and redis.call('HEXISTS', shard.notices, job.chain) == 1 then
    return { 'busy', job.chain }
  end
  if job.mark ~= '' then
    job.waits, k = KEYS[k], k + 1
    expect_type(job.waits, 'hash')
    local last = i + 2 * tonumber(ARGV[i])
    for n = i + 1, last, 2 do
      local how, value = ARGV[n], ARGV[n + 1]
      job.after[#job.after + 1] = { how, value }
      if how == 'here' and not (job.there or earlier[value] or is_open(shard, value)) then
        return { 'moved', value }
      end
    end
    i = last + 1
  end
  earlier[job.chain], jobs[#jobs + 1] = true, job
end
local time, out = now(), {}
for n, job in ipairs(jobs) do
  out[n] = (job.made or not job.there) and 1 or 0
  if not job.there then
    job.at = due_at(job.due, time)
    if job.mark == '' then
      put_job(queue, job.chain, true, job.envelope, job.at, time)
    else
      block_job(queue, shard, job, time)
    end
    if job.key ~= '' then redis.call('HSET', shard.keyed, job.chain, job.key) end
    redis.call('SET', job.receipt, 1, 'PX', ARGV[3])
  end
end
redis.call('SADD', KEYS[9], 's ' .. queue.name)
announce_earlier(queue, shard.channel)
return with_outbox(out, shard)
