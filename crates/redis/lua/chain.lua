-- Behind the prelude of scripts by which chains go on or end. They are given as their first
-- KEYS  jobs, waiters, notices, errands, keyed: what a shard has for all its queues
-- ARGV  the channel
-- Whatever cannot be done in the same step, because another shard is concerned or very many are, is an *errand*: written down
-- here in the same step, carried on by the caller at once, and by anyone who promotes if the caller dies:
--   'w MARK'              a blocked job is still to be registered with chains it waits for
--   'c CHAIN'             a chain has closed; those that wait for it are to be told
--   'u EXPIRY CHAIN KEY'  a chain has closed; its deduplication key is to expire at that time (0: go at once)
--   'k KEY'               a deduplication key is reserved for a chain that is still to be made

-- How long whoever makes an errand has for it, in ms, before others carry it on.
local GRACE = 2000

-- `owed` collects the errands a script has made.
local function home()
  return { jobs = KEYS[1], waiters = KEYS[2], notices = KEYS[3], errands = KEYS[4], keyed = KEYS[5],
    channel = ARGV[1], owed = {} }
end

-- Leaves something to be done in another step: by the caller at once, by anyone who promotes after a while.
local function owe(h, errand)
  redis.call('ZADD', h.errands, whole(now() + GRACE), errand)
  h.owed[#h.owed + 1] = errand
end

-- Whoever waits for a chain, the first of them: 'CHAIN MARK POSITION QUEUE JOB'. A space sorts before, and an
-- exclamation mark behind, everything that such an entry of this chain can go on with.
local function awaited(h, chain)
  return redis.call('ZRANGEBYLEX', h.waiters, '[' .. chain .. ' ', '(' .. chain .. '!', 'LIMIT', 0, 1)[1]
end

-- Whether a chain can be waited for. One that closed and whose waiters are still to be told is not open.
local function is_open(h, chain)
  return redis.call('HEXISTS', h.jobs, chain) == 1 and redis.call('HEXISTS', h.notices, chain) == 0
end

-- What ends with a chain beside its job: those that wait for it are to be told, and its key is to go. `record` is
-- '' if the chain was removed, else what is kept, for `ms`.
local function close(h, chain, record, ms)
  if redis.call('EXISTS', h.waiters, h.keyed) == 0 then return end
  if awaited(h, chain) then
    redis.call('HSETNX', h.notices, chain, record)
    owe(h, 'c ' .. chain)
  end
  local key = redis.call('HGET', h.keyed, chain)
  if key then
    redis.call('HDEL', h.keyed, chain)
    owe(h, 'u ' .. (record == '' and '0' or whole(now() + ms)) .. ' ' .. chain .. ' ' .. key)
  end
end

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

-- Ends a claim whose lease is already given up. `s` has id, chain, op ('finish', 'requeue', 'bury', 'continue',
-- 'block'), data, due, record (key). What would go on, of a job that is to be cancelled, is removed instead.
local function apply(q, h, s)
  local cancelled = redis.call('HDEL', q.cancelled, s.chain) == 1
  local goes_on = not cancelled and (s.op == 'requeue' or s.op == 'continue' or s.op == 'block')
  if goes_on then
    local time = now()
    local at = due_at(s.due, time)
    if s.op == 'requeue' then
      put(q, s.chain, s.tracked, s.data, at, time)
    elseif s.op == 'continue' then
      put(q.next, s.chain, true, s.data, at, time)
    else
      block(q.next, h, { id = s.next, chain = s.chain, mark = s.mark, waits = s.waits, envelope = s.data, at = at,
        origin = 'next', after = s.after }, time)
    end
  elseif s.op == 'bury' then
    local old = redis.call('HGET', h.jobs, s.chain)
    local dead = q.kind == 's' and 'd ' or 'D '
    local before = old and string.match(old, '^' .. dead .. '[^ ]+ (.+)$')
    if before then redis.call('XDEL', q.dlq, before) end
    local entry = redis.call('XADD', q.dlq, '*', 'data', s.data)
    redis.call('HSET', h.jobs, s.chain, dead .. q.name .. ' ' .. entry)
  else
    local kept = s.op == 'finish' and s.data ~= ''
    redis.call('HDEL', h.jobs, s.chain)
    if kept then
      redis.call('SET', s.record, s.data, 'PX', s.due)
      redis.call('PUBLISH', h.channel, 'finished ' .. s.chain)
    end
    close(h, s.chain, kept and s.data or '', kept and tonumber(s.due) or 0)
  end
end

-- Reads a change from ARGV[i] and KEYS[k] on. ARGV: job id, tracked ('1' or '0'), op, data, due (how long a record is
-- kept) and, if op is 'block', the next job's id, mark, number of blockers, then per blocker: how, chain.
-- KEYS: record and, if op is 'block', waits. Returns the change and where the next begins.
local function read_change(i, k)
  local s = { id = ARGV[i], chain = chain_of(ARGV[i]), tracked = ARGV[i + 1] == '1', op = ARGV[i + 2],
    data = ARGV[i + 3], due = ARGV[i + 4], record = KEYS[k] }
  i, k = i + 5, k + 1
  if s.op == 'block' then
    s.next, s.mark, s.after, s.waits = ARGV[i], ARGV[i + 1], {}, KEYS[k]
    local last = i + 2 + 2 * tonumber(ARGV[i + 2])
    for n = i + 3, last, 2 do s.after[#s.after + 1] = { ARGV[n], ARGV[n + 1] } end
    i, k = last + 1, k + 1
  end
  return s, i, k
end

-- Takes a job away from where it is; `q` has the keys of its queue and its group. Returns nil if it is not there, else
-- 'running' or 'waiting', and what a blocked job was registered with: a list of 'POSITION CHAIN'.
local function take(q, h, letter, reference)
  if letter == 'S' or letter == 'L' then
    return redis.call('ZREM', q.scheduled, reference) == 1 and 'waiting' or nil, {}
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
  redis.call('HINCRBY', q.dropped, q.chain, 1)
  return 'waiting', {}
end

local function expect_home(h)
  expect(h.jobs, 'hash')
  expect(h.waiters, 'zset')
  expect(h.notices, 'hash')
  expect(h.errands, 'zset')
  expect(h.keyed, 'hash')
end

-- An answer: what a script has to say, then the errands it has made.
local function with_owed(out, h)
  for _, errand in ipairs(h.owed) do out[#out + 1] = errand end
  return out
end
