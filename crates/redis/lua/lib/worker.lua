-- Behind `basics.lua`, for scripts about the fleet. They are given as their first
-- KEYS  cluster:lifetime_connections
-- ARGV  channel; what is taken for granted of members that do not say: how many sessions at once, in their life, for how many
--       ms a beat is fresh; for how many seconds an order stands
-- All of the fleet lies in one shard. Which keys else a script touches follows from what it finds, so scripts make those
-- themselves, as `src/keys.rs` does. A member is called 'KIND:NAME'.
-- What leases look at are indexes, and the truth is each member's hash: other programs write there, too, and what they write
-- counts at once. So a member that describes itself is taken out of an index whenever it cannot be given, because only its own
-- beat, or the end of a session, can change that; a member of another program stays in it as long as it has room.

local TIME, CHANNEL, LIFETIME = now(), ARGV[1], KEYS[1]
local PREFIX = string.sub(LIFETIME, 1, -1 - #'cluster:lifetime_connections')
local ACTIVE, WORKER, FLEET = PREFIX .. 'cluster:active_connections', PREFIX .. 'worker:', PREFIX .. 'fleet:'
local MEMBERS, PLACES, STALE, GRACE = FLEET .. 'members', FLEET .. 'places', FLEET .. 'stale', FLEET .. 'grace'
local SESSIONS, ENDS, LINES, COUNTS = FLEET .. 'sessions', FLEET .. 'ends', FLEET .. 'lines', FLEET .. 'counts'
local STANDARD = { concurrent = tonumber(ARGV[2]), limit = tonumber(ARGV[3]), fresh = tonumber(ARGV[4]) }
local ORDER = ARGV[5]

-- What has run out is kept for so many ms more: whoever removes it can then still see what it was.
local KEPT = 60000
local WIDTH = 1048576
-- A time of another program above this is in milliseconds: in seconds it would be in the year 5138.
local MILLISECONDS = 100000000000
-- For how many ms the sessions that another program counts are taken for real without a change: its counts outlive it.
local COUNTED = 1800000

expect(LIFETIME, 'hash')
expect(ACTIVE, 'hash')
expect(PLACES, 'hash')
expect(COUNTS, 'hash')
for _, index in ipairs({ MEMBERS, STALE, GRACE, SESSIONS, ENDS, LINES }) do expect(index, 'zset') end

local after_now = '(' .. whole(TIME)

-- The name of an index that follows from what a script finds, and so cannot be looked at before its first write. One that
-- holds something else than it should is made anew: what was in it follows from members and sessions.
local sound = {}
local function index(key, kind, fill)
  if sound[key] then return key end
  sound[key] = true
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    redis.call('DEL', key)
    if fill then fill(key) end
  end
  return key
end

-- ---- what is told, at the end and at once

local news, told = {}, {}

local function tell(wake)
  if not told[wake] then news[#news + 1] = wake end
  told[wake] = true
end

local function finish(answer)
  if #news > 0 then notify(CHANNEL, table.concat(news, '\n')) end
  return answer
end

-- ---- members

-- The kind of a member; nil if this is not what one is called.
local function kind_of(id)
  local kind, name = string.match(id, '^([%w._-]+):([!-~]+)$')
  if kind and kind ~= 'cmd' and #kind <= 32 and #name <= 192 then return kind end
end

local function count_in(text)
  return text and #text <= 15 and string.match(text, '^%d+$') and tonumber(text) or nil
end

-- Where the indexes have a member, and what it is taken to be: 'OFFER CONCURRENT LIFETIME FRESH'.
local function place_of(id)
  if not kind_of(id) then return nil end
  local offer, concurrent, limit, fresh = string.match(redis.call('HGET', PLACES, id) or '', '^(%S+) (%d+) (%d+) (%d+)$')
  if not offer then return nil end
  return { offer = offer, concurrent = tonumber(concurrent), limit = tonumber(limit), fresh = tonumber(fresh) }
end

-- Why a hash is no member's hash; nil if it is one.
local STATUSES = { available = true, draining = true, ['shutting-down'] = true }
local function fault(m, f)
  if f[1] ~= m.kind then return 'browserType is not ' .. m.kind end
  if not m.endpoint then return 'wsEndpoint and endpoint are missing' end
  if not m.beat then return 'lastHeartbeat is not a time' end
  if not STATUSES[f[3]] then return 'status is not available, draining or shutting-down' end
  if not m.says_itself then return not string.match(m.endpoint, '^ws://.') and 'its endpoint is not a ws:// address' or nil end
  local says = string.match(f[5], '^[%w._-]+$') and #f[5] <= 64 and count_in(f[6]) and count_in(f[7]) and count_in(f[8])
  return not says and 'offer, concurrent, lifetime or fresh is not one' or nil
end

-- When a member says it beat, in ms, and for how many ms that may be later than it says. `lastHeartbeat` is in seconds in
-- earlier releases of playwright-distributed, and in milliseconds in later ones.
local function beat_of(said, exact)
  if not said or said >= MILLISECONDS then return said, 0 end
  if exact and math.floor(exact / 1000) == said then return exact, 0 end
  return said * 1000, 999
end

-- Which run of a server this is. One that was restarted, or took another's place, may have forgotten the last leases: persistence
-- and replication lag behind. Empty for a user without the right to INFO.
local run
local function server()
  if not run then
    local info = redis.pcall('INFO', 'server')
    run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
  end
  return run
end

-- A member as its hash has it now; nil if there is none, false and the reason if that is none. `standard` counts for what the
-- hash does not say, else what was taken for granted when it was entered.
local function load(id, standard)
  local kind = kind_of(id)
  if not kind then return false, 'it is not called KIND:NAME' end
  local f = redis.pcall('HMGET', WORKER .. id, 'browserType', 'wsEndpoint', 'status', 'lastHeartbeat', 'offer',
    'concurrent', 'lifetime', 'fresh', 'beat', 'server', 'endpoint')
  if f.err then return false, 'worker:' .. id .. ' is not a hash' end
  if not (f[1] or f[2] or f[3] or f[4] or f[11]) then
    if redis.call('EXISTS', WORKER .. id) == 1 then return false, 'browserType is missing' end
    return nil
  end
  local m = { id = id, kind = kind, endpoint = f[2] or f[11] or nil, is_available = f[3] == 'available',
    says_itself = f[5] ~= false }
  local late
  m.beat, late = beat_of(count_in(f[4]), count_in(f[9]))
  local why = fault(m, f)
  if why then return false, why end
  if m.says_itself then
    m.offer, m.concurrent, m.limit, m.fresh = f[5], tonumber(f[6]), tonumber(f[7]), tonumber(f[8])
  else
    local taken = standard or place_of(id) or STANDARD
    m.offer, m.concurrent, m.limit, m.fresh = 'playwright', taken.concurrent, taken.limit, taken.fresh
  end
  m.stale_at = m.beat + m.fresh + late
  m.is_fresh = TIME < m.stale_at
  -- Whether what is known of its sessions is all there is.
  m.is_sure = not m.says_itself or f[10] == server() or f[10] == '' or server() == ''
  return m
end

-- The sessions of a member. The list of all sessions has them as well.
local function held(id)
  return index(FLEET .. 'held:' .. id, 'zset', function(key)
    for _, entry in ipairs(redis.call('ZRANGEBYLEX', SESSIONS, '[' .. id .. ' ', '(' .. id .. '!')) do
      local sid = string.sub(entry, #id + 2)
      local ends = redis.pcall('HGET', FLEET .. 'session:' .. sid, 'until')
      if type(ends) == 'string' and count_in(ends) then redis.call('ZADD', key, ends, sid) end
    end
  end)
end

-- How many leased sessions a member has.
local function leased(id) return redis.call('ZCOUNT', held(id), after_now, '+inf') end

-- How many sessions other programs count for a member, and since when it is that many: what they have added to the number that was
-- published last. `fleet:counts` has that as 'LEASED FOREIGN SINCE'. Programs that die leave theirs, so no number counts for ever.
local function foreign(id)
  local ours, before, since = string.match(redis.call('HGET', COUNTS, id) or '', '^(%d+) (%d+) (%d+)$')
  local shown = redis.call('HGET', ACTIVE, id)
  local is_number = shown and #shown <= 7 and string.match(shown, '^%-?%d+$')
  local count = is_number and math.max(0, tonumber(shown) - (tonumber(ours) or 0)) or 0
  if count ~= tonumber(before) then return count, TIME end
  if TIME - tonumber(since) >= COUNTED then return 0, TIME end
  return count, tonumber(since)
end

-- How many sessions a member has, through whomever.
local function active(id) return leased(id) + (foreign(id)) end

-- How many it has had.
local function lifetime(id) return math.min(count_in(redis.call('HGET', LIFETIME, id)) or 0, 4294967295) end

local function is_ordered(id) return redis.pcall('GET', WORKER .. 'cmd:' .. id) == 'shutdown' end

local function is_spent(m) return m.limit > 0 and lifetime(m.id) >= m.limit end

local function live(kind, offer) return index(FLEET .. 'live:' .. kind .. ':' .. offer, 'zset') end
local function leaving(kind, offer) return index(FLEET .. 'leaving:' .. kind .. ':' .. offer, 'zset') end
local function limits(kind, offer) return index(FLEET .. 'limits:' .. kind .. ':' .. offer, 'set') end
local function free(kind, offer, limit)
  return index(FLEET .. 'free:' .. kind .. ':' .. offer .. ':' .. whole(limit), 'zset')
end

local function take_out(id, kind, at)
  local pool = free(kind, at.offer, at.limit)
  if redis.call('ZREM', pool, id) == 1 and redis.call('EXISTS', pool) == 0 then
    redis.call('SREM', limits(kind, at.offer), whole(at.limit))
  end
end

-- Whether a lease should look at a member at all.
local function is_worth_a_look(m, sessions)
  if sessions >= m.concurrent or is_spent(m) or redis.call('ZSCORE', GRACE, m.id) then return false end
  return not m.says_itself or m.is_available and m.is_fresh and m.is_sure and not is_ordered(m.id)
end

-- Its place in the index: the highest lifetime comes first, and of equals the one with the fewest sessions.
local function rating(m, sessions) return lifetime(m.id) * WIDTH + WIDTH - 1 - math.min(sessions, WIDTH - 1) end

-- Puts a member where it belongs in every index. Says whether leases find it now and did not before.
local function place(m)
  local record = m.offer .. ' ' .. whole(m.concurrent) .. ' ' .. whole(m.limit) .. ' ' .. whole(m.fresh)
  local before, sessions = place_of(m.id), active(m.id)
  if before and (before.offer ~= m.offer or before.limit ~= m.limit) then
    redis.call('ZREM', live(m.kind, before.offer), m.id)
    redis.call('ZREM', leaving(m.kind, before.offer), m.id)
    take_out(m.id, m.kind, before)
  end
  redis.call('HSET', PLACES, m.id, record)
  redis.call('ZADD', MEMBERS, 0, m.id)
  redis.call('ZADD', STALE, whole(m.stale_at), m.id)
  local here, other = live(m.kind, m.offer), leaving(m.kind, m.offer)
  if not m.is_available then here, other = other, here end
  redis.call('ZADD', here, whole(m.stale_at), m.id)
  redis.call('ZREM', other, m.id)
  if not is_worth_a_look(m, sessions) then
    take_out(m.id, m.kind, m)
    return false
  end
  redis.call('SADD', limits(m.kind, m.offer), whole(m.limit))
  return redis.call('ZADD', free(m.kind, m.offer, m.limit), whole(rating(m, sessions)), m.id) == 1
end

-- The hash is gone: it is given to nobody, and the next reap removes what is left.
local function set_aside(id)
  local at, kind = place_of(id), kind_of(id)
  if not at then return end
  redis.call('ZREM', live(kind, at.offer), id)
  redis.call('ZREM', leaving(kind, at.offer), id)
  take_out(id, kind, at)
  redis.call('ZADD', STALE, 0, id)
end

local function write(m)
  local key = WORKER .. m.id
  if redis.call('TYPE', key).ok ~= 'hash' then redis.call('DEL', key) end
  -- Earlier releases of playwright-distributed read `wsEndpoint`, later ones `id`, `endpoint` and `startedAt`.
  redis.call('HSET', key, 'browserType', m.kind, 'wsEndpoint', m.endpoint, 'status', m.status, 'lastHeartbeat',
    whole(math.floor(TIME / 1000)), 'id', string.sub(m.id, #m.kind + 2), 'endpoint', m.endpoint, 'offer', m.offer, 'concurrent', m.concurrent, 'lifetime', m.limit, 'fresh', m.fresh,
    'beat', whole(TIME), 'server', server(), 'detail', m.detail)
  redis.call('HSETNX', key, 'startedAt', whole(TIME))
  redis.call('PEXPIRE', key, whole(m.fresh + KEPT))
end

-- Orders a member to drain. Workers of other programs also listen on a channel of the key's name; whoever may not publish there has
-- written the order all the same.
local function order(m)
  local key = WORKER .. 'cmd:' .. m.id
  redis.call('SET', key, 'shutdown', 'EX', ORDER)
  if not m.says_itself then notify(key, 'shutdown') end
end

-- ARGV from i on: member, offer, endpoint, status, how many sessions at once, in its life, for how many ms a beat is fresh, detail
local DESCRIPTION = 8
local function read_member(i)
  local id = ARGV[i]
  return { id = id, kind = kind_of(id), offer = ARGV[i + 1], endpoint = ARGV[i + 2], status = ARGV[i + 3],
    concurrent = tonumber(ARGV[i + 4]), limit = tonumber(ARGV[i + 5]), fresh = tonumber(ARGV[i + 6]), detail = ARGV[i + 7],
    is_available = ARGV[i + 3] == 'available', says_itself = true, is_fresh = true, is_sure = true, beat = TIME,
    stale_at = TIME + tonumber(ARGV[i + 6]) }
end

-- Publishes how many sessions a member has.
local function publish(id)
  local ours, count, since = leased(id), foreign(id)
  redis.call('HSET', COUNTS, id, ours .. ' ' .. whole(count) .. ' ' .. whole(since))
  redis.call('HSET', ACTIVE, id, whole(ours + count))
end
