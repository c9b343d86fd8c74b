-- For scripts that continue chains as well as end them; loaded after `close.lua`. Contains:
-- blocking a job, applying a settlement, and removing a job from its location. The KEYS and ARGV
-- are described in `close.lua` and at each function.

-- Makes a job wait for other chains. `job` has id, chain, mark (the id of this wait), waits (key),
-- envelope, at, origin ('new' or 'next') and after: a list of { how, value }. `how` is 'here' or
-- 'away' with a chain, or 'told' with the notice of a closed chain. An open chain of this shard is
-- registered with at once; the outbox registers the others.
local function block_job(queue, shard, job, time)
  local open, unknown = 0, 0
  for i, blocker in ipairs(job.after) do
    local how, value = blocker[1], blocker[2]
    if how == 'told' then
      redis.call('HSET', job.waits, 't' .. i, value)
    else
      local known = how == 'here' and is_open(shard, value)
      if known then
        local waiter = value .. ' ' .. job.mark .. ' ' .. i .. ' ' .. queue.name .. ' ' .. job.id
        redis.call('ZADD', shard.waiters, 0, waiter)
      end
      open, unknown = open + 1, unknown + (known and 0 or 1)
      redis.call('HSET', job.waits, 'w' .. i, (known and '-' or '?') .. value)
    end
  end
  redis.call('HSET', job.waits, 'job', job.id, 'queue', queue.name, 'envelope', job.envelope, 'at',
    int_text(job.at),
    'origin', job.origin, 'of', #job.after, 'open', open, 'unknown', unknown)
  redis.call('ZADD', queue.blocked, int_text(time), job.id .. ' ' .. job.mark)
  redis.call('HSET', shard.jobs, job.chain, 'b ' .. queue.name .. ' ' .. job.id .. ' ' .. job.mark)
  if unknown > 0 then add_outbox(shard, 'w ' .. job.mark) end
end

-- Whether the index has another location under the entry's id: another program may have reused the
-- id of a job.
local function is_foreign_entry(queue, shard, settlement)
  local indexed = settlement.entry and redis.call('HGET', shard.jobs, settlement.chain)
  return indexed and indexed ~= 's ' .. queue.name .. ' ' .. settlement.entry
end

-- Applies a change to a job whose lease has been given up. `settlement` has id, chain, op
-- ('finish', 'requeue', 'bury', 'continue' or 'block'), data, due, record (key), entry for a
-- stream, and lost if its worker lost it. A cancelled job is removed instead of continued.
local function apply_change(queue, shard, settlement)
  local is_foreign = is_foreign_entry(queue, shard, settlement)
-- Under its chain, or under its entry if the job is not in the index.
  local noted = is_foreign and settlement.entry or settlement.chain
  local cancelled = redis.call('HDEL', queue.cancelled, noted, settlement.entry or noted) > 0
  local goes_on = not cancelled and (settlement.op == 'requeue' or settlement.op == 'continue'
    or settlement.op == 'block')
  if goes_on then
    local time = now()
    local at = due_at(settlement.due, time)
    if settlement.op == 'requeue' then
      put_job(queue, settlement.chain, settlement.tracked and not is_foreign, settlement.data, at, time)
    elseif settlement.op == 'continue' then
      put_job(queue.next, settlement.chain, true, settlement.data, at, time)
    else
      block_job(queue.next, shard, { id = settlement.next, chain = settlement.chain, mark = settlement.mark,
        waits = settlement.waits, envelope = settlement.data, at = at,
        origin = 'next', after = settlement.after }, time)
    end
  elseif settlement.op == 'bury' and is_foreign then
    redis.call('XADD', queue.dlq, '*', 'data', settlement.data)
  elseif settlement.op == 'bury' then
    local old = redis.call('HGET', shard.jobs, settlement.chain)
    local dead = queue.kind == 's' and 'd ' or 'D '
    local before = old and string.match(old, '^' .. dead .. '[^ ]+ (.+)$')
    if before then redis.call('XDEL', queue.dlq, before) end
    local entry = redis.call('XADD', queue.dlq, '*', 'data', settlement.data)
    redis.call('HSET', shard.jobs, settlement.chain, dead .. queue.name .. ' ' .. entry)
    shard.ended[#shard.ended + 1] = 'finished ' .. settlement.chain
  else
    local kept = settlement.op == 'finish' and settlement.data ~= ''
    if not is_foreign then redis.call('HDEL', shard.jobs, settlement.chain) end
    if kept then
      redis.call('SET', settlement.record, settlement.data, 'PX', settlement.due)
    end
-- A job may have waiters if it leaves a record, was cancelled instead of continued, or lost its
-- worker.
    if kept or cancelled or settlement.lost then
      shard.ended[#shard.ended + 1] = 'finished ' .. settlement.chain
    end
    if not is_foreign then
      close_chain(shard, settlement.chain, kept and settlement.data or '', kept and tonumber(settlement.due)
        or 0)
    end
  end
end

-- Reads a change from ARGV[i] and KEYS[k] on. Call it before the first write. ARGV: job id, tracked
-- ('1' or '0'), op, data, due (for a record: how long it is kept) and, if op is 'block', the next
-- job's id, its wait id, the number of blockers, then per blocker: how, chain. KEYS: record and, if
-- op is 'block', waits. Returns the change and where the next one begins.
local function read_change(i, k)
  local settlement = { id = ARGV[i], chain = chain_of(ARGV[i]), tracked = ARGV[i + 1] == '1',
    op = ARGV[i + 2],
    data = ARGV[i + 3], due = ARGV[i + 4], record = KEYS[k] }
  i, k = i + 5, k + 1
  if settlement.op == 'block' then
    settlement.next, settlement.mark, settlement.after, settlement.waits = ARGV[i], ARGV[i + 1], {}, KEYS[k]
    expect_type(settlement.waits, 'hash')
    local last = i + 2 + 2 * tonumber(ARGV[i + 2])
    for n = i + 3, last, 2 do settlement.after[#settlement.after + 1] = { ARGV[n], ARGV[n + 1] } end
    i, k = last + 1, k + 1
  end
  return settlement, i, k
end

-- Fails if a key that `remove_job_at` touches holds the wrong type.
local function expect_location(queue, shard, letter)
  expect_type(queue.cancelled, 'hash')
  if letter == 'S' or letter == 'L' then
    expect_type(queue.scheduled, 'zset')
    expect_type(queue.target .. ':purged', 'zset')
  elseif letter == 'd' or letter == 'D' then
    expect_type(queue.dlq, 'stream')
  elseif letter == 's' then
    expect_type(queue.target, 'stream')
  elseif letter == 'b' then
    expect_type(queue.blocked, 'zset')
    expect_type(queue.waits, 'hash')
    expect_type(shard.errands, 'zset')
  else
    expect_type(queue.running, 'hash')
    expect_type(queue.dropped, 'hash')
  end
end

-- Removes a job from its location; `queue` has the keys of its queue and its group. Returns nil if
-- it is not there, else 'running' or 'waiting', and a blocked job's registrations: a list of
-- 'POSITION CHAIN'.
local function remove_job_at(queue, shard, letter, reference)
  if letter == 'S' or letter == 'L' then
    local removed = redis.call('ZREM', queue.scheduled, reference) == 1
      or redis.call('ZREM', queue.target .. ':purged', reference) == 1
    return removed and 'waiting' or nil, {}
  elseif letter == 'd' or letter == 'D' then
    return redis.call('XDEL', queue.dlq, reference) == 1 and 'waiting' or nil, {}
  elseif letter == 's' then
    local pending = pending_entry(queue.target, queue.group, reference)
    if pending then redis.call('XACK', queue.target, queue.group, reference) end
    if redis.call('XDEL', queue.target, reference) == 0 then return nil, {} end
    return pending and 'running' or 'waiting', {}
  elseif letter == 'b' then
    if redis.call('ZREM', queue.blocked, reference) == 0 then return nil, {} end
    local registered = {}
    for _, field in ipairs(redis.call('HKEYS', queue.waits)) do
      local open = string.sub(field, 1, 1) == 'w' and redis.call('HGET', queue.waits, field)
      if open then registered[#registered + 1] = string.sub(field, 2) .. ' ' .. string.sub(open, 2) end
    end
    redis.call('DEL', queue.waits)
    redis.call('ZREM', shard.errands, 'w ' .. string.match(reference, '[^ ]+$'))
    return 'waiting', registered
  elseif redis.call('DEL', queue.lock) == 1 then
    redis.call('HDEL', queue.running, queue.id)
    return 'running', {}
  end
-- Removing it from the middle of a list costs a walk, so the pop that finds it drops it instead.
  drop_copy(queue.dropped, queue.chain)
  return 'waiting', {}
end
