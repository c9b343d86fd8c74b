-- For scripts that continue chains as well as end them; loaded after `close.lua`. Contains:
-- blocking a job, applying a change, and removing a job from its location. The KEYS are described in
-- `close.lua`.

-- Fails if a key holds the wrong type; checked once per key.
local expected = {}
local function expect_once(key, kind)
  if not expected[key] then expect_type(key, kind) end
  expected[key] = true
end

-- Makes a job wait for other chains. `job` has id, chain, wait_id, waits (key), envelope, at, origin
-- ('new' or 'next') and blockers: a list of { how, value }. `how` is 'here' or 'away' with a chain,
-- or 'told' with the notice of a closed chain. An open chain of this shard is registered with at
-- once; the outbox registers the others.
local function block_job(queue, shard, job, time)
  local open, unknown = 0, 0
  for i, blocker in ipairs(job.blockers) do
    local how, value = blocker.how, blocker.value
    if how == 'told' then
      redis.call('HSET', job.waits, 't' .. i, value)
    else
      local known = how == 'here' and is_open(shard, value)
      if known then
        local waiter = value .. ' ' .. job.wait_id .. ' ' .. i .. ' ' .. queue.name .. ' ' .. job.id
        redis.call('ZADD', shard.waiters, 0, waiter)
      end
      open, unknown = open + 1, unknown + (known and 0 or 1)
      redis.call('HSET', job.waits, 'w' .. i, (known and '-' or '?') .. value)
    end
  end
  redis.call('HSET', job.waits, 'job', job.id, 'queue', queue.name, 'envelope', job.envelope, 'at',
    int_text(job.at), 'origin', job.origin, 'of', #job.blockers, 'open', open, 'unknown', unknown)
  redis.call('ZADD', queue.blocked, int_text(time), job.id .. ' ' .. job.wait_id)
  redis.call('HSET', shard.jobs, job.chain, 'b ' .. queue.name .. ' ' .. job.id .. ' ' .. job.wait_id)
  if unknown > 0 then add_outbox(shard, 'w ' .. job.wait_id) end
end

-- Returns a queue where a chain continues: one for each name, because it collects what to announce.
local function open_next_queue(shard, queue)
  local known = shard.next_queues[queue.name]
  if known then return known end
  local opened = { kind = 's', name = queue.name, target = KEYS[queue.target],
    scheduled = KEYS[queue.scheduled], blocked = KEYS[queue.blocked], jobs = shard.jobs }
  expect_queue(opened)
  shard.next_queues[queue.name] = opened
  return opened
end

-- Registers the queues where chains continue, and announces their jobs.
local function register_next_queues(shard, queues)
  for name, queue in pairs(shard.next_queues) do
    redis.call('SADD', queues, 's ' .. name)
    announce_earlier(queue, shard.channel)
  end
end

-- A change is a map with job, chain, op, the entry of a stream job, `lost` if its worker lost it, and
--   finish: record, keep (ms) and record_key, or none of them
--   bury: letter       requeue: envelope, due, tracked
--   continue: envelope, due, and next_queue with name, target, scheduled and blocked; if the next job
--     waits, also next_job, wait_id, waits (key) and blockers
-- Keys are given by their number in KEYS. Call this before the first write: it fails if a key that
-- the change is going to write has the wrong type.
local function check_change(queue, shard, change)
  change.chain = chain_of(change.job)
  if change.next_queue then change.next_queue = open_next_queue(shard, change.next_queue) end
  local target = change.next_queue or queue
  if change.op == 'bury' then expect_once(queue.dlq, 'stream') end
  if change.due and change.due ~= '' then expect_once(target.scheduled, 'zset') end
  if change.wait_id then
    expect_shard(shard)
    expect_once(target.blocked, 'zset')
    expect_type(KEYS[change.waits], 'hash')
  end
end

-- Whether the index has another location under the entry's id: another program may have reused the
-- id of a job.
local function is_foreign_entry(queue, shard, change)
  local indexed = change.entry and redis.call('HGET', shard.jobs, change.chain)
  return indexed and indexed ~= 's ' .. queue.name .. ' ' .. change.entry
end

local function bury_job(queue, shard, change, is_foreign)
  if is_foreign then
    redis.call('XADD', queue.dlq, '*', 'data', change.letter)
    return
  end
  local old = redis.call('HGET', shard.jobs, change.chain)
  local dead = queue.kind == 's' and 'd ' or 'D '
  local before = old and string.match(old, '^' .. dead .. '[^ ]+ (.+)$')
  if before then redis.call('XDEL', queue.dlq, before) end
  local entry = redis.call('XADD', queue.dlq, '*', 'data', change.letter)
  redis.call('HSET', shard.jobs, change.chain, dead .. queue.name .. ' ' .. entry)
  shard.ended[#shard.ended + 1] = 'finished ' .. change.chain
end

local function continue_chain(shard, change, at, time)
  if not change.wait_id then
    put_job(change.next_queue, change.chain, true, change.envelope, at, time)
    return
  end
  block_job(change.next_queue, shard, { id = change.next_job, chain = change.chain,
    wait_id = change.wait_id, waits = KEYS[change.waits], envelope = change.envelope, at = at,
    origin = 'next', blockers = change.blockers }, time)
end

-- Applies a change to a job whose lease has been given up. A cancelled job is removed instead of
-- continued.
local function apply_change(queue, shard, change)
  local is_foreign = is_foreign_entry(queue, shard, change)
  -- Under its chain, or under its entry if the job is not in the index.
  local noted = is_foreign and change.entry or change.chain
  local cancelled = redis.call('HDEL', queue.cancelled, noted, change.entry or noted) > 0
  if change.op == 'bury' then return bury_job(queue, shard, change, is_foreign) end
  if change.op ~= 'finish' and not cancelled then
    local time = now()
    local at = due_at(change.due, time)
    if change.op == 'continue' then return continue_chain(shard, change, at, time) end
    return put_job(queue, change.chain, change.tracked and not is_foreign, change.envelope, at, time)
  end
  local record = change.record
  if not is_foreign then redis.call('HDEL', shard.jobs, change.chain) end
  if record then redis.call('SET', KEYS[change.record_key], record, 'PX', change.keep) end
  -- A job may have waiters if it leaves a record, was cancelled instead of continued, or lost its
  -- worker.
  if record or cancelled or change.lost then
    shard.ended[#shard.ended + 1] = 'finished ' .. change.chain
  end
  if not is_foreign then close_chain(shard, change.chain, record or '', change.keep or 0) end
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
