-- Sessions, which are leases, and the queues of clients that wait for one; loaded after
-- `worker.lua`.

local function session_key(session_id) return FLEET .. 'session:' .. session_id end

-- Loads a session; nil if there is none, or if it is invalid.
local function load_session(session_id)
  local fields = redis.pcall('HMGET', session_key(session_id), 'member', 'holder', 'connected', 'until',
    'closing')
  if fields.err or not fields[1] or not fields[2] or not parse_count(fields[4]) then return nil end
  return { id = session_id, member = fields[1], holder = fields[2], is_connected = fields[3] == '1',
    ends = tonumber(fields[4]),
    is_over = tonumber(fields[4]) <= TIME, is_closing = fields[5] == '1' }
end

-- Keeps a key for a while after a time, which another program may have written.
local function expire_later(key, at)
  redis.call('PEXPIREAT', key, int_text(math.min(math.max(at, TIME) + KEY_GRACE_MS, 9007199254740991)))
end

-- Extends a session until a time.
local function extend_session(session_id, id, ends)
  local at = int_text(ends)
  redis.call('HSET', session_key(session_id), 'until', at)
  expire_later(session_key(session_id), ends)
  redis.call('ZADD', held_key(id), at, session_id)
  local last = tonumber(redis.call('ZRANGE', held_key(id), -1, -1, 'WITHSCORES')[2])
  expire_later(held_key(id), last)
  redis.call('ZADD', SESSIONS, 0, id .. ' ' .. session_id)
  redis.call('ZADD', ENDS, at, id .. ' ' .. session_id)
end

local function remove_session(session_id, id)
  redis.call('DEL', session_key(session_id))
  redis.call('ZREM', held_key(id), session_id)
  redis.call('ZREM', SESSIONS, id .. ' ' .. session_id)
  redis.call('ZREM', ENDS, id .. ' ' .. session_id)
end

-- Removes a worker and all its keys; returns how many sessions it had.
local function remove_worker(id)
  local at, kind, sessions = index_entry(id), kind_of(id), redis.call('ZRANGE', held_key(id), 0, -1)
  for _, session_id in ipairs(sessions) do remove_session(session_id, id) end
  if at then
    redis.call('ZREM', live_key(kind, at.offer), id)
    redis.call('ZREM', leaving_key(kind, at.offer), id)
    remove_from_pool(id, kind, at)
  end
  redis.call('HDEL', PLACES, id)
  for _, index_key in ipairs({ MEMBERS, STALE, GRACE }) do redis.call('ZREM', index_key, id) end
  redis.call('DEL', WORKER .. id, WORKER .. 'cmd:' .. id)
  redis.call('HDEL', ACTIVE, id)
  redis.call('HDEL', COUNTS, id)
  redis.call('HDEL', LIFETIME, id)
  return #sessions
end

-- Whether a client waits for workers of a kind.
local function has_waiting(kind)
  for _, wait_queue in ipairs(redis.call('ZRANGE', LINES, 0, -1)) do
    if string.match(wait_queue, '^%S+') == kind then return true end
  end
  return false
end

-- Ends a session: frees its slot, wakes its worker, and orders a worker at its lifetime limit to
-- drain.
local function end_session(session_id, id)
  remove_session(session_id, id)
  local worker = load_worker(id)
  if worker then
    publish_count(id)
    if is_spent(worker) then order_drain(worker) end
    if index_entry(id) then index_worker(worker) end
  end
  add_wake('member ' .. id)
  local kind = kind_of(id)
  if kind and has_waiting(kind) then add_wake('places ' .. kind) end
end

-- Ends expired sessions, a bounded number; returns how many.
local function end_expired(limit)
  local over = redis.call('ZRANGEBYSCORE', ENDS, '-inf', int_text(TIME), 'LIMIT', 0, limit)
  for _, entry in ipairs(over) do
    local id, session_id = string.match(entry, '^(%S+) (%S+)$')
    if session_id then end_session(session_id, id) else redis.call('ZREM', ENDS, entry) end
  end
  return #over
end

-- ---- wait queues

local function open_wait_queue(kind, offer)
  return { kind = kind, name = kind .. ' ' .. offer, turns = index_key(FLEET .. 'line:' .. kind .. ':'
    .. offer, 'zset'),
    asked = index_key(FLEET .. 'asked:' .. kind .. ':' .. offer, 'zset') }
end

local function ticket_key(session_id) return FLEET .. 'ticket:' .. session_id end

-- Reads the ticket of a waiting client; nil if there is none.
local function read_ticket(session_id)
  local said = redis.pcall('GET', ticket_key(session_id))
  return type(said) == 'string' and said or nil
end

-- Returns the workers that a ticket rejects: ' WORKER WORKER ', or blanks.
local function refusals(said) return (string.match(said or '', '^%S+ %S+ %S+( .+)$') or '') .. ' ' end

local function leave_queue(wait_queue, session_id)
  redis.call('ZREM', wait_queue.turns, session_id)
  redis.call('ZREM', wait_queue.asked, session_id)
  redis.call('DEL', ticket_key(session_id))
end

-- Updates the expiry of a changed wait queue: of its first client, and of all its keys.
local function update_wait_queue(wait_queue)
  local first = redis.call('ZRANGE', wait_queue.asked, 0, 0, 'WITHSCORES')[2]
  if not first then
    redis.call('ZREM', LINES, wait_queue.name)
    redis.call('DEL', wait_queue.turns)
    return
  end
  local last = tonumber(redis.call('ZRANGE', wait_queue.asked, -1, -1, 'WITHSCORES')[2])
  redis.call('ZADD', LINES, first, wait_queue.name)
  expire_later(wait_queue.turns, last)
  expire_later(wait_queue.asked, last)
end

-- Removes clients that stopped asking; returns how many.
local function drop_absent(wait_queue)
  local gone = redis.call('ZRANGEBYSCORE', wait_queue.asked, '-inf', int_text(TIME))
  for _, session_id in ipairs(gone) do leave_queue(wait_queue, session_id) end
  if #gone > 0 then update_wait_queue(wait_queue) end
  return #gone
end
