-- Behind `close.lua`, for scripts by which chains go on as well: what a job waits for, how a claim ends, and taking a job
-- away from wherever it is. They are given the KEYS and ARGV that are said there and at each function.

-- Makes a job wait for other chains. `j` has id, chain, mark, waits (key), envelope, at, origin ('new' or 'next') and
-- after: a list of { how, value }: 'here' or 'away' and a chain, 'told' and what a closed chain tells. A chain that is
-- open here is registered with at once; the others are owed.
local function block(q, h, j, time)
  local open, unknown = 0, 0
  for i, blocker in ipairs(j.after) do
    local how, value = blocker[1], blocker[2]
    if how == 'told' then
      redis.call('HSET', j.waits, 't' .. i, value)
    else
      local known = how == 'here' and is_open(h, value)
      if known then
        local waiter = value .. ' ' .. j.mark .. ' ' .. i .. ' ' .. q.name .. ' ' .. j.id
        redis.call('ZADD', h.waiters, 0, waiter)
      end
      open, unknown = open + 1, unknown + (known and 0 or 1)
      redis.call('HSET', j.waits, 'w' .. i, (known and '-' or '?') .. value)
    end
  end
  redis.call('HSET', j.waits, 'job', j.id, 'queue', q.name, 'envelope', j.envelope, 'at', whole(j.at),
    'origin', j.origin, 'of', #j.after, 'open', open, 'unknown', unknown)
  redis.call('ZADD', q.blocked, whole(time), j.id .. ' ' .. j.mark)
  redis.call('HSET', h.jobs, j.chain, 'b ' .. q.name .. ' ' .. j.id .. ' ' .. j.mark)
  if unknown > 0 then owe(h, 'w ' .. j.mark) end
end

-- Whether an entry is not what the index has its id for: another program may have given it that of a job.
local function is_stranger(q, h, s)
  local indexed = s.entry and redis.call('HGET', h.jobs, s.chain)
  return indexed and indexed ~= 's ' .. q.name .. ' ' .. s.entry
end

-- Ends a claim whose lease is already given up. `s` has id, chain, op ('finish', 'requeue', 'bury', 'continue',
-- 'block'), data, due, record (key), in a stream entry, and lost if its worker lost it. What would go on, of a job that is to be cancelled, is removed
-- instead.
local function apply(q, h, s)
  local stranger = is_stranger(q, h, s)
  -- Under its chain, or under its entry if it is not in the index.
  local noted = stranger and s.entry or s.chain
  local cancelled = redis.call('HDEL', q.cancelled, noted, s.entry or noted) > 0
  local goes_on = not cancelled and (s.op == 'requeue' or s.op == 'continue' or s.op == 'block')
  if goes_on then
    local time = now()
    local at = due_at(s.due, time)
    if s.op == 'requeue' then
      put(q, s.chain, s.tracked and not stranger, s.data, at, time)
    elseif s.op == 'continue' then
      put(q.next, s.chain, true, s.data, at, time)
    else
      block(q.next, h, { id = s.next, chain = s.chain, mark = s.mark, waits = s.waits, envelope = s.data, at = at,
        origin = 'next', after = s.after }, time)
    end
  elseif s.op == 'bury' and stranger then
    redis.call('XADD', q.dlq, '*', 'data', s.data)
  elseif s.op == 'bury' then
    local old = redis.call('HGET', h.jobs, s.chain)
    local dead = q.kind == 's' and 'd ' or 'D '
    local before = old and string.match(old, '^' .. dead .. '[^ ]+ (.+)$')
    if before then redis.call('XDEL', q.dlq, before) end
    local entry = redis.call('XADD', q.dlq, '*', 'data', s.data)
    redis.call('HSET', h.jobs, s.chain, dead .. q.name .. ' ' .. entry)
    h.ended[#h.ended + 1] = 'finished ' .. s.chain
  else
    local kept = s.op == 'finish' and s.data ~= ''
    if not stranger then redis.call('HDEL', h.jobs, s.chain) end
    if kept then
      redis.call('SET', s.record, s.data, 'PX', s.due)
    end
    -- Somebody may wait for a job that leaves a record, was cancelled instead of going on, or was lost with its worker.
    if kept or cancelled or s.lost then h.ended[#h.ended + 1] = 'finished ' .. s.chain end
    if not stranger then close(h, s.chain, kept and s.data or '', kept and tonumber(s.due) or 0) end
  end
end

-- Reads a change from ARGV[i] and KEYS[k] on. ARGV: job id, tracked ('1' or '0'), op, data, due (how long a record is
-- kept) and, if op is 'block', the next job's id, mark, number of blockers, then per blocker: how, chain.
-- KEYS: record and, if op is 'block', waits. Returns the change and where the next begins. Called before the first write.
local function read_change(i, k)
  local s = { id = ARGV[i], chain = chain_of(ARGV[i]), tracked = ARGV[i + 1] == '1', op = ARGV[i + 2],
    data = ARGV[i + 3], due = ARGV[i + 4], record = KEYS[k] }
  i, k = i + 5, k + 1
  if s.op == 'block' then
    s.next, s.mark, s.after, s.waits = ARGV[i], ARGV[i + 1], {}, KEYS[k]
    expect(s.waits, 'hash')
    local last = i + 2 + 2 * tonumber(ARGV[i + 2])
    for n = i + 3, last, 2 do s.after[#s.after + 1] = { ARGV[n], ARGV[n + 1] } end
    i, k = last + 1, k + 1
  end
  return s, i, k
end

-- Fails if a key that `take` touches holds something else than it should.
local function expect_place(q, h, letter)
  expect(q.cancelled, 'hash')
  if letter == 'S' or letter == 'L' then
    expect(q.scheduled, 'zset')
    expect(q.target .. ':purged', 'zset')
  elseif letter == 'd' or letter == 'D' then
    expect(q.dlq, 'stream')
  elseif letter == 's' then
    expect(q.target, 'stream')
  elseif letter == 'b' then
    expect(q.blocked, 'zset')
    expect(q.waits, 'hash')
    expect(h.errands, 'zset')
  else
    expect(q.running, 'hash')
    expect(q.dropped, 'hash')
  end
end

-- Takes a job away from where it is; `q` has the keys of its queue and its group. Returns nil if it is not there, else
-- 'running' or 'waiting', and what a blocked job was registered with: a list of 'POSITION CHAIN'.
local function take(q, h, letter, reference)
  if letter == 'S' or letter == 'L' then
    local removed = redis.call('ZREM', q.scheduled, reference) == 1
      or redis.call('ZREM', q.target .. ':purged', reference) == 1
    return removed and 'waiting' or nil, {}
  elseif letter == 'd' or letter == 'D' then
    return redis.call('XDEL', q.dlq, reference) == 1 and 'waiting' or nil, {}
  elseif letter == 's' then
    local held = lease(q.target, q.group, reference)
    if held then redis.call('XACK', q.target, q.group, reference) end
    if redis.call('XDEL', q.target, reference) == 0 then return nil, {} end
    return held and 'running' or 'waiting', {}
  elseif letter == 'b' then
    if redis.call('ZREM', q.blocked, reference) == 0 then return nil, {} end
    local registered = {}
    for _, field in ipairs(redis.call('HKEYS', q.waits)) do
      local open = string.sub(field, 1, 1) == 'w' and redis.call('HGET', q.waits, field)
      if open then registered[#registered + 1] = string.sub(field, 2) .. ' ' .. string.sub(open, 2) end
    end
    redis.call('DEL', q.waits)
    redis.call('ZREM', h.errands, 'w ' .. string.match(reference, '[^ ]+$'))
    return 'waiting', registered
  elseif redis.call('DEL', q.lock) == 1 then
    redis.call('HDEL', q.running, q.id)
    return 'running', {}
  end
  -- Taking it out of the middle of a list costs a walk; whoever pops it drops it instead.
  drop_copy(q.dropped, q.chain)
  return 'waiting', {}
end
