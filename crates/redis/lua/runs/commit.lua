-- Settles jobs that concern runs, each atomically and fenced by its lease: tasks with their
-- commits, jobs whose results are delivered to runs, and requeued activities, whose runs are
-- notified if cancelled.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a run context, mode ('settle' or 'rescue'), default lease in ms, then
--       per settlement: kind of queue ('s' or 'l'), queue, token (the entry, or the lock's value;
--       '0': never locked), job id, and one of
--         'deliver' with a delivery
--         'requeue' with envelope, due and the event for a removed activity: the JSON before
--           and after the number
--         'commit' with run, id of the commit, cursor, upto, entry, effects, and then
--           'goes_on', 'ends' with a close, or 'restarts' with an entry, ms for which delivery ids
--           are kept, and how many are kept in any case
-- Mode 'rescue' ends only expired leases. Nothing is written for a damaged run, or for a journal
-- that accepts no entry: the claim expires, and its work can be repeated when the run is repaired.
-- Returns for each: 1 accepted or 0 lease lost; then the outbox entries.
local ctx = run_context(shard_context(), 2)
local mode, unknown = ctx.read(), tonumber(ctx.read())

local function read_commit()
  local commit_args = { run = ctx.read(), id = ctx.read(), cursor = tonumber(ctx.read()),
    upto = tonumber(ctx.read()), entry = ctx.read() }
  commit_args.effects, commit_args.how = read_effects(ctx, commit_args.run), ctx.read()
  load_run(ctx, commit_args.run)
  if commit_args.how == 'restarts' then
    expect_pending(ctx, commit_args.run)
    commit_args.first, commit_args.seen_for, commit_args.most_seen = ctx.read(), tonumber(ctx.read()),
      tonumber(ctx.read())
  elseif commit_args.how == 'ends' then
    commit_args.close = read_close(ctx, commit_args.run)
  end
  return commit_args
end

-- Checks here, before the first write, all that is read between writes.
local function read_settlement()
  local settlement = { queue = queue_keys(ctx, ctx.read(), ctx.read()), token = ctx.read(), id = ctx.read(),
    op = ctx.read() }
  settlement.chain = chain_of(settlement.id)
  if mode == 'rescue' then expect_once(ctx, settlement.queue.leases, 'hash') end
  if settlement.op == 'commit' then
    settlement.commit = read_commit()
  elseif settlement.op == 'requeue' then
    settlement.envelope, settlement.due = ctx.read(), ctx.read()
    settlement.delivery = removal_event(ctx, settlement.id, { ctx.read(), ctx.read() })
    if settlement.due ~= '' then expect_once(ctx, settlement.queue.scheduled, 'zset') end
  else
    settlement.delivery = read_delivery(ctx)
  end
  return settlement
end

-- Whether the claim on an entry is held; in mode 'rescue', whether it has expired.
local function holds_entry(queue, entry)
  local pending = pending_entry(queue.target, queue.group, entry)
  if not pending or mode ~= 'rescue' then return pending ~= nil end
  local worker = string.gsub(pending[2], '%+held$', '')
  return pending[3] >= (tonumber(redis.call('HGET', queue.leases, worker) or '') or unknown)
end

-- The same for a list job.
local function holds_lock(queue, id, token)
  local held = redis.pcall('GET', queue.target .. ':lock:' .. id)
  if mode ~= 'rescue' then return token == '0' or held == token end
  local trace = redis.call('HGET', queue.running, id)
  return not held and trace and string.match(trace, '^%d+') == token
end

local function holds(settlement)
  if settlement.queue.kind == 's' then return holds_entry(settlement.queue, settlement.token) end
  return holds_lock(settlement.queue, settlement.id, settlement.token)
end

-- Ends a claim that is held.
local function end_claim(settlement)
  local queue, location = settlement.queue, 'l ' .. settlement.queue.name
  if queue.kind == 's' then
    redis.call('XACK', queue.target, queue.group, settlement.token)
    redis.call('XDEL', queue.target, settlement.token)
    location = 's ' .. queue.name .. ' ' .. settlement.token
  else
    redis.call('DEL', queue.target .. ':lock:' .. settlement.id)
    redis.call('HDEL', queue.running, settlement.id)
  end
  -- Any other job with this id is not the claimed one.
  forget_job(ctx, queue, settlement.chain, location)
end

-- Begins a new journal after the old one, with the messages that were not consumed: copies them in
-- small steps, then trims the old one. Its first entry, at this position, exists already.
local function restart(run, commit_args, first)
  drop_timers(ctx, run)
  forget_seen(ctx, run, commit_args.seen_for, commit_args.most_seen)
  each_entry(run, commit_args.upto + 1, int_text(first - 1), function(_, kind, data)
    if kind == 'message' then append_entry(ctx, run, 'message', data) end
  end)
  redis.call('XTRIM', run.events, 'MINID', int_text(first) .. '-0')
  run.state.cursor = first - 1
end

-- The entry is written first, because it may be refused.
local function commit(settlement)
  local commit_args = settlement.commit
  local run = load_run(ctx, commit_args.run)
  if run == false or run and run.state.pending or commit_args.effects.lost then return 0 end
  if not run or not is_running(run) or run.state.cursor ~= commit_args.cursor then
    end_claim(settlement)
    if run and is_running(run) then
      mark_changed(ctx, run)
      run.wants_task = true
    end
    return 0
  end
  local again = commit_args.how == 'restarts'
  if not append_entry(ctx, run, again and 'answer' or 'commit',
    with_time(again and commit_args.first or commit_args.entry, ctx.time)) then
    return 0
  end
  local position = run.state.length
  end_claim(settlement)
  run.wants_task, run.state.last_commit = true, commit_args.id
  apply_effects(ctx, run, commit_args.effects)
  if again then
    restart(run, commit_args, position)
  else
    run.state.cursor, run.committed = commit_args.upto, position
    if commit_args.how == 'ends' then end_run(ctx, run, commit_args.close) end
  end
  return 1
end

local function deliver_result(settlement)
  if deliver(ctx, settlement.delivery) == 'damaged' then return 0 end
  end_claim(settlement)
  return 1
end

-- A cancelled job is not requeued: its run is notified instead.
local function requeue(settlement)
  if redis.call('HEXISTS', settlement.queue.cancelled, settlement.chain) == 1 then
    return deliver_result(settlement)
  end
  end_claim(settlement)
  put_job(settlement.queue, settlement.chain, true, settlement.envelope, due_at(settlement.due, ctx.time),
    ctx.time)
  return 1
end

local SETTLERS = { commit = commit, deliver = deliver_result, requeue = requeue }
local all, out = {}, {}
while ctx.has_more() do all[#all + 1] = read_settlement() end
for i, settlement in ipairs(all) do
  out[i] = holds(settlement) and SETTLERS[settlement.op](settlement) or 0
  if mode == 'rescue' and out[i] == 1 then
    ctx.shard.ended[#ctx.shard.ended + 1] = 'lost ' .. settlement.id
  end
end
save_runs(ctx)
publish_ended(ctx.shard)
return with_outbox(out, ctx.shard)
