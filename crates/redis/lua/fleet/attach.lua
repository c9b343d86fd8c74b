-- Holders say what they hold: leases are extended, and what is not known is entered, if there is room.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then per session: its id, its member, its holder, for how many ms it lasts, for how many it
--       outlives its connection, '1' if a client is connected, '1' to take it over, '1' if it must be known, when it began (ms), detail
-- Returns for each: 'held', 'closing' or 'lost'.
local function read(i)
  return { id = ARGV[i], member = ARGV[i + 1], holder = ARGV[i + 2], ttl = tonumber(ARGV[i + 3]),
    keep = tonumber(ARGV[i + 4]), connected = ARGV[i + 5], takes = ARGV[i + 6] == '1', must_exist = ARGV[i + 7] == '1',
    started = ARGV[i + 8], detail = ARGV[i + 9] }
end

local function hold(a)
  redis.call('HSET', session_key(a.id), 'holder', a.holder, 'connected', a.connected)
  extend(a.id, a.member, TIME + math.max(a.ttl, a.keep))
end

-- Enters a session that is not known, or whose time was over. One that was there has been counted.
local function enter(a, was_counted)
  local m = load(a.member)
  if m and active(m.id) >= m.concurrent then return 'lost' end
  redis.call('DEL', session_key(a.id))
  redis.call('HSET', session_key(a.id), 'member', a.member, 'keep', whole(a.keep), 'started', a.started, 'detail', a.detail)
  hold(a)
  if not m then return 'held' end
  if not was_counted then redis.call('HSET', LIFETIME, m.id, whole(lifetime(m.id) + 1)) end
  publish(m.id)
  if place_of(m.id) then place(m) end
  return 'held'
end

local function attach(a)
  local s = session(a.id)
  if a.must_exist and (not s or s.is_over) then return 'closing' end
  if not s then return enter(a, false) end
  if s.is_over then
    if s.member == a.member then return enter(a, true) end
    end_session(s.id, s.member)
    return enter(a, false)
  end
  local is_anothers = s.is_connected and s.holder ~= a.holder
  if s.member ~= a.member or is_anothers and not a.takes then return 'lost' end
  hold(a)
  -- Whoever had it has lost it.
  if is_anothers then tell('session ' .. s.id) end
  return s.is_closing and 'closing' or 'held'
end

local out = {}
for i = 6, #ARGV, 10 do out[#out + 1] = attach(read(i)) end
return finish(out)
