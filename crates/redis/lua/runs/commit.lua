-- Settles jobs that concern runs, each atomically and fenced by its lease: tasks with their commits,
-- jobs whose results are delivered to runs, and requeued activities, whose runs are notified if
-- cancelled.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, expired (settles only expired leases), default_lease (ms, of a
--       consumer without a recorded one), removed_event (for a removed activity: the JSON before and
--       after the number), settlements: kind of queue ('s' or 'l'), queue, token (the entry, or the
--       value of the lock; with 'u' before it: never locked), job, op of each, and one of
--         'deliver' with a delivery
--         'requeue', as `check_change` has it
--         'commit' with a commit: run, id, cursor, upto, entry, effects and, if the run ends, close,
--           or if it restarts, restart: its first entry, and for how many ms (id_retention) and how
--           many delivery ids are kept in any case (max_ids)
-- Nothing is written for a damaged run, or for a journal that accepts no entry: the lease expires,
-- and its work can be repeated when the run is repaired.
-- Returns for each: 1 accepted or 0 lease lost; then the outbox entries.
local args = cmsgpack.unpack(ARGV[1])
local ctx = run_context(shard_context(args.channel), args.context)

local function check_commit(settlement)
  local commit = settlement.commit
  settlement.effects = read_effects(ctx, commit.run, commit.effects)
  load_run(ctx, commit.run)
  if commit.restart then expect_pending(ctx, commit.run) end
  if commit.close then check_close(ctx, commit.run, commit.close) end
end

-- Checks here, before the first write, all that is read or written later.
local function check_settlement(settlement)
  local queue = queue_keys(ctx, settlement.kind, settlement.queue)
  settlement.queue, settlement.chain = queue, chain_of(settlement.job)
  settlement.is_unlocked = string.sub(settlement.token, 1, 1) == 'u'
  if queue.kind == 's' then settlement.entry = settlement.token end
  if args.expired then expect_once(queue.leases, 'hash') end
  if settlement.op == 'commit' then return check_commit(settlement) end
  if settlement.op == 'deliver' then return load_run(ctx, settlement.delivery.run) end
  check_change(queue, ctx.shard, settlement)
  settlement.delivery = removal_event(ctx, settlement.job, args.removed_event)
end

local function is_expired_entry(queue, pending)
  local worker = string.gsub(pending[2], '%+held$', '')
  return pending[3] >= (tonumber(redis.call('HGET', queue.leases, worker) or '') or args.default_lease)
end

local function holds_entry(queue, entry)
  local pending = pending_entry(queue.target, queue.group, entry)
  return pending and (not args.expired or is_expired_entry(queue, pending))
end

local function holds_lock(settlement)
  local queue, token = settlement.queue, settlement.token
  local held = redis.pcall('GET', queue.target .. ':lock:' .. settlement.job)
  if not args.expired then return settlement.is_unlocked or held == token end
  local trace = redis.call('HGET', queue.running, settlement.job)
  return not held and trace and string.match(trace, '^%d+') == token
end

local function holds(settlement)
  if settlement.queue.kind == 's' then return holds_entry(settlement.queue, settlement.entry) end
  return holds_lock(settlement)
end

local function end_lease(settlement)
  local queue = settlement.queue
  if queue.kind == 's' then
    redis.call('XACK', queue.target, queue.group, settlement.entry)
    redis.call('XDEL', queue.target, settlement.entry)
  elseif not settlement.is_unlocked then
    redis.call('DEL', queue.target .. ':lock:' .. settlement.job)
    redis.call('HDEL', queue.running, settlement.job)
  end
end

-- Gives up the lease on a job, and removes the job.
local function end_job(settlement)
  local queue = settlement.queue
  local location = settlement.entry and 's ' .. queue.name .. ' ' .. settlement.entry or 'l ' .. queue.name
  end_lease(settlement)
  -- Any other job with this id is not the claimed one.
  forget_job(ctx, queue, settlement.chain, location)
end

-- Begins a new journal after the old one, with the messages that were not consumed: copies them in
-- small steps, then trims the old one. Its first entry, at this position, exists already.
local function restart(run, commit, first)
  drop_timers(ctx, run)
  forget_seen(ctx, run, commit.restart.id_retention, commit.restart.max_ids)
  each_entry(run, commit.upto + 1, int_text(first - 1), function(_, kind, data)
    if kind == 'message' then append_entry(ctx, run, 'message', data) end
  end)
  redis.call('XTRIM', run.events, 'MINID', int_text(first) .. '-0')
  run.state.cursor = first - 1
end

-- The entry is written first, because it may be refused.
local function commit_task(settlement)
  local commit = settlement.commit
  local run = load_run(ctx, commit.run)
  if run == false or run and run.state.pending or settlement.effects.lost then return 0 end
  if not run or not is_running(run) or run.state.cursor ~= commit.cursor then
    end_job(settlement)
    if run and is_running(run) then
      mark_changed(ctx, run)
      run.wants_task = true
    end
    return 0
  end
  local again = commit.restart
  if not append_entry(ctx, run, again and 'answer' or 'commit',
    with_time(again and again.first or commit.entry, ctx.time)) then
    return 0
  end
  local position = run.state.length
  end_job(settlement)
  run.wants_task, run.state.last_commit = true, commit.id
  apply_effects(ctx, run, settlement.effects)
  if again then
    restart(run, commit, position)
  else
    run.state.cursor, run.committed = commit.upto, position
    if commit.close then end_run(ctx, run, commit.close) end
  end
  return 1
end

local function deliver_result(settlement)
  if deliver(ctx, settlement.delivery) == 'damaged' then return 0 end
  end_job(settlement)
  return 1
end

-- A cancelled activity is not requeued: its run is notified instead.
local function requeue_activity(settlement)
  if redis.call('HEXISTS', settlement.queue.cancelled, settlement.chain) == 1 then
    return deliver_result(settlement)
  end
  end_lease(settlement)
  apply_change(settlement.queue, ctx.shard, settlement)
  return 1
end

local SETTLERS = { commit = commit_task, deliver = deliver_result, requeue = requeue_activity }
local out = {}
for _, settlement in ipairs(args.settlements) do check_settlement(settlement) end
for i, settlement in ipairs(args.settlements) do
  out[i] = holds(settlement) and SETTLERS[settlement.op](settlement) or 0
  if args.expired and out[i] == 1 then
    ctx.shard.ended[#ctx.shard.ended + 1] = 'lost ' .. settlement.job
  end
end
save_runs(ctx)
publish_ended(ctx.shard)
return with_outbox(out, ctx.shard)
