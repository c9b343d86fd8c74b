-- Deletes jobs of a purge that has begun, a bounded number and size, or one however large: those
-- set apart, then the ready ones of a stream up to an entry. Pending entries, which are before the
-- group's position, stay, and so do tasks and commands of runs. Runs that wait for a deleted job
-- are notified.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, kind ('s' or 'l'), queue, limit, bytes, after (the entry to start
--       after; '0-0': the group's position), last (the last entry to delete), outbox_entry,
--       removed_event (for a removed activity: the JSON before and after the number)
-- Returns how many were deleted, how many were read, and the entry to continue after; then the
-- outbox entries.
local args = cmsgpack.unpack(ARGV[1])
local ctx = run_context(shard_context(args.channel), args.context)
local queue, limit, bytes, from = queue_keys(ctx, args.kind, args.queue), args.limit, args.bytes, args.after
local purged, list = queue.target .. ':purged', queue.target .. ':purged:ready'
local set_apart, popped, ready, count = {}, {}, {}, 0
expect_shard(ctx.shard)
expect_type(queue.scheduled, 'zset')
expect_type(queue.dropped, 'hash')
expect_type(purged, 'zset')
expect_type(list, 'list')

-- Returns a function that collects jobs with the events for their runs, before anything is written.
local function collector(jobs, read)
  return function(item)
    local reference, envelope = read(item)
    local id = id_in(envelope)
    jobs[#jobs + 1] = { reference = reference, copy = not reference and envelope, chain = id and chain_of(id),
      stays = id and is_run_job(id),
      told = id and removal_event(ctx, id, args.removed_event) }
    return #envelope
  end
end

local function remove_job(job)
  if job.chain and job.copy and is_dropped(queue.dropped, job.chain, job.copy) then return end
  if job.chain and redis.call('HDEL', ctx.shard.jobs, job.chain) == 1 then
    close_chain(ctx.shard, job.chain, '', 0)
    ctx.shard.ended[#ctx.shard.ended + 1] = 'finished ' .. job.chain
  end
  if job.told then deliver(ctx, job.told) end
  count = count + 1
end

bytes = read_bounded(limit, bytes, function(seen, step)
  return redis.call('ZRANGE', purged, seen, seen + step - 1)
end, collector(set_apart, function(envelope) return envelope, envelope end))
bytes = read_bounded(limit - #set_apart, bytes, function(seen, step)
  local found = redis.call('LRANGE', list, -seen - step, -seen - 1)
  for i = 1, math.floor(#found / 2) do found[i], found[#found + 1 - i] = found[#found + 1 - i], found[i] end
  return found
end, collector(popped, function(envelope) return nil, envelope end))
if queue.kind == 's' then
  local read, next = stream_position(queue.target, queue.target .. ':paused', queue.group).at, nil
  if is_later(read, from) then from = read end
  next = from
  read_bounded(limit - #set_apart, bytes, function(_, step)
    local found = redis.call('XRANGE', queue.target, '(' .. next, args.last, 'COUNT', step)
    if #found > 0 then next = found[#found][1] end
    return found
  end, collector(ready, function(entry) return entry[1], field(entry, 'data') or entry[2][2] or '' end))
end

-- Other processes take over an outbox entry that is not extended.
redis.call('ZADD', ctx.shard.errands, 'XX', int_text(ctx.time + GRACE), args.outbox_entry)
for _, job in ipairs(set_apart) do
  if job.stays then
    redis.call('ZADD', queue.scheduled, redis.call('ZSCORE', purged, job.reference), job.reference)
  end
  redis.call('ZREM', purged, job.reference)
  if not job.stays then remove_job(job) end
end
for _, job in ipairs(popped) do
  redis.call('RPOP', list)
  remove_job(job)
end
for _, job in ipairs(ready) do
  from = job.reference
  if not job.stays then
    redis.call('XDEL', queue.target, job.reference)
    remove_job(job)
  end
end
save_runs(ctx)
publish_ended(ctx.shard)
return with_outbox({ count, #set_apart + #popped + #ready, from }, ctx.shard)
