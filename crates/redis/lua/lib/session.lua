-- Behind `member.lua`, for scripts about the fleet: sessions, which are leases, and the lines of those who wait for one.

local function session_key(sid) return FLEET .. 'session:' .. sid end

-- A session; nil if there is none that can be read.
local function session(sid)
  local f = redis.pcall('HMGET', session_key(sid), 'member', 'holder', 'connected', 'until', 'closing')
  if f.err or not f[1] or not f[2] or not count_in(f[4]) then return nil end
  return { id = sid, member = f[1], holder = f[2], is_connected = f[3] == '1', ends = tonumber(f[4]),
    is_over = tonumber(f[4]) <= TIME, is_closing = f[5] == '1' }
end

-- A key is kept for a while beyond a time, which may be one that another program has written.
local function expire(key, at) redis.call('PEXPIREAT', key, whole(math.min(math.max(at, TIME) + KEPT, 9007199254740991))) end

-- A session lasts until then.
local function extend(sid, id, ends)
  local at = whole(ends)
  redis.call('HSET', session_key(sid), 'until', at)
  expire(session_key(sid), ends)
  redis.call('ZADD', held(id), at, sid)
  local last = tonumber(redis.call('ZRANGE', held(id), -1, -1, 'WITHSCORES')[2])
  expire(held(id), last)
  redis.call('ZADD', SESSIONS, 0, id .. ' ' .. sid)
  redis.call('ZADD', ENDS, at, id .. ' ' .. sid)
end

local function remove_session(sid, id)
  redis.call('DEL', session_key(sid))
  redis.call('ZREM', held(id), sid)
  redis.call('ZREM', SESSIONS, id .. ' ' .. sid)
  redis.call('ZREM', ENDS, id .. ' ' .. sid)
end

-- Removes a member with everything it has, and says how many sessions those were.
local function leave(id)
  local at, kind, sessions = place_of(id), kind_of(id), redis.call('ZRANGE', held(id), 0, -1)
  for _, sid in ipairs(sessions) do remove_session(sid, id) end
  if at then
    redis.call('ZREM', live(kind, at.offer), id)
    redis.call('ZREM', leaving(kind, at.offer), id)
    take_out(id, kind, at)
  end
  redis.call('HDEL', PLACES, id)
  for _, index in ipairs({ MEMBERS, STALE, GRACE }) do redis.call('ZREM', index, id) end
  redis.call('DEL', WORKER .. id, WORKER .. 'cmd:' .. id)
  redis.call('HDEL', ACTIVE, id)
  redis.call('HDEL', COUNTS, id)
  redis.call('HDEL', LIFETIME, id)
  return #sessions
end

-- Whether somebody waits for members of a kind.
local function is_awaited(kind)
  for _, line in ipairs(redis.call('ZRANGE', LINES, 0, -1)) do
    if string.match(line, '^%S+') == kind then return true end
  end
  return false
end

-- Ends a session: its place is free, its member hears of it and is ordered to drain if it has had all it may have.
local function end_session(sid, id)
  remove_session(sid, id)
  local m = load(id)
  if m then
    publish(id)
    if is_spent(m) then order(m) end
    if place_of(id) then place(m) end
  end
  tell('member ' .. id)
  local kind = kind_of(id)
  if kind and is_awaited(kind) then tell('places ' .. kind) end
end

-- Ends sessions whose time is over, a bounded number, and says how many.
local function end_expired(limit)
  local over = redis.call('ZRANGEBYSCORE', ENDS, '-inf', whole(TIME), 'LIMIT', 0, limit)
  for _, entry in ipairs(over) do
    local id, sid = string.match(entry, '^(%S+) (%S+)$')
    if sid then end_session(sid, id) else redis.call('ZREM', ENDS, entry) end
  end
  return #over
end

-- ---- lines

local function line_of(kind, offer)
  return { kind = kind, name = kind .. ' ' .. offer, turns = index(FLEET .. 'line:' .. kind .. ':' .. offer, 'zset'),
    asked = index(FLEET .. 'asked:' .. kind .. ':' .. offer, 'zset') }
end

local function ticket(sid) return FLEET .. 'ticket:' .. sid end

-- What a ticket says; nil if there is none.
local function ticket_of(sid)
  local said = redis.pcall('GET', ticket(sid))
  return type(said) == 'string' and said or nil
end

-- What a ticket says its holder refuses: ' MEMBER MEMBER ', or nothing.
local function refusals(said) return (string.match(said or '', '^%S+ %S+ %S+( .+)$') or '') .. ' ' end

local function quit(line, sid)
  redis.call('ZREM', line.turns, sid)
  redis.call('ZREM', line.asked, sid)
  redis.call('DEL', ticket(sid))
end

-- After a line has changed: when its first place runs out, and when all of it would.
local function note(line)
  local first = redis.call('ZRANGE', line.asked, 0, 0, 'WITHSCORES')[2]
  if not first then
    redis.call('ZREM', LINES, line.name)
    redis.call('DEL', line.turns)
    return
  end
  local last = tonumber(redis.call('ZRANGE', line.asked, -1, -1, 'WITHSCORES')[2])
  redis.call('ZADD', LINES, first, line.name)
  expire(line.turns, last)
  expire(line.asked, last)
end

-- Removes places that nobody asked for, and says how many.
local function quit_absent(line)
  local gone = redis.call('ZRANGEBYSCORE', line.asked, '-inf', whole(TIME))
  for _, sid in ipairs(gone) do quit(line, sid) end
  if #gone > 0 then note(line) end
  return #gone
end
