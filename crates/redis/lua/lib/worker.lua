-- For scripts about the fleet; loaded after `base.lua`. Such scripts begin with
-- KEYS  cluster:lifetime_connections
-- ARGV  one map: channel, defaults for workers of other programs (concurrent sessions, limit of
--       lifetime sessions, and for how many ms a heartbeat is fresh), order_ttl (seconds for which an
--       order is kept), and the script's own
-- The whole fleet is in one shard. The other keys depend on what a script reads, so scripts build
-- them as `keys.rs` does. A worker's id is 'KIND:NAME'.
-- Leases read indexes; the source of truth is each worker's hash, which other programs write, too.
-- A worker that describes itself leaves the index when it cannot be leased: only its own heartbeat
-- or the end of a session can change that. A worker of another program stays while it has capacity.

local args = cmsgpack.unpack(ARGV[1])
local TIME, CHANNEL, LIFETIME = now(), args.channel, KEYS[1]
local PREFIX = string.sub(LIFETIME, 1, -1 - #'cluster:lifetime_connections')
local ACTIVE, WORKER, FLEET = PREFIX .. 'cluster:active_connections', PREFIX .. 'worker:', PREFIX .. 'fleet:'
local MEMBERS, PLACES, STALE, GRACE = FLEET .. 'members', FLEET .. 'places', FLEET .. 'stale', FLEET
  .. 'grace'
local SESSIONS, ENDS, LINES, COUNTS = FLEET .. 'sessions', FLEET .. 'ends', FLEET .. 'lines', FLEET
  .. 'counts'
local DEFAULTS, ORDER_TTL = args.defaults, args.order_ttl

-- Expired keys are kept for this many ms more, so that the reaper can still read them.
local KEY_GRACE_MS = 60000
local RATING_WIDTH = 1048576
-- A time of another program above this is in milliseconds: in seconds it would be in the year 5138.
local MIN_MILLISECONDS = 100000000000
-- For how many ms an unchanged count of another program is believed: counts outlive their program.
local FOREIGN_COUNT_TTL = 1800000

expect_type(LIFETIME, 'hash')
expect_type(ACTIVE, 'hash')
expect_type(PLACES, 'hash')
expect_type(COUNTS, 'hash')
for _, index_key in ipairs({ MEMBERS, STALE, GRACE, SESSIONS, ENDS, LINES }) do
  expect_type(index_key, 'zset')
end

local AFTER_NOW = '(' .. int_text(TIME)

-- Returns an index key that depends on what a script reads, so it cannot be checked before the
-- first write. An index of the wrong type is rebuilt: its content follows from workers and
-- sessions.
local checked = {}
local function index_key(key, kind, fill)
  if checked[key] then return key end
  checked[key] = true
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    redis.call('DEL', key)
    if fill then fill(key) end
  end
  return key
end

-- ---- wake-ups, published once at the end

local wakes, is_added = {}, {}

local function add_wake(wake)
  if not is_added[wake] then wakes[#wakes + 1] = wake end
  is_added[wake] = true
end

local function reply_with(answer)
  if #wakes > 0 then notify(CHANNEL, table.concat(wakes, '\n')) end
  return answer
end

-- ---- workers

-- Returns the kind of a worker; nil if this is no worker id.
local function kind_of(id)
  local kind, name = string.match(id, '^([%w._-]+):([!-~]+)$')
  if kind and kind ~= 'cmd' and #kind <= 32 and #name <= 192 then return kind end
end

local function parse_count(text)
  return text and #text <= 15 and string.match(text, '^%d+$') and tonumber(text) or nil
end

-- Returns the indexed description of a worker: 'OFFER CONCURRENT LIFETIME FRESH'.
local function index_entry(id)
  if not kind_of(id) then return nil end
  local offer, concurrent, limit, fresh = string.match(redis.call('HGET', PLACES, id) or '',
    '^(%S+) (%d+) (%d+) (%d+)$')
  if not offer then return nil end
  return { offer = offer, concurrent = tonumber(concurrent), limit = tonumber(limit),
    fresh = tonumber(fresh) }
end

-- Returns why a hash is no worker's hash; nil if it is one.
local STATUSES = { available = true, draining = true, ['shutting-down'] = true }
local function describe_fault(worker, fields)
  if fields[1] ~= worker.kind then return 'browserType is not ' .. worker.kind end
  if not worker.endpoint then return 'wsEndpoint and endpoint are missing' end
  if not worker.beat then return 'lastHeartbeat is not a time' end
  if not STATUSES[fields[3]] then return 'status is not available, draining or shutting-down' end
  if not worker.describes_itself then
    return not string.match(worker.endpoint, '^ws://.') and 'its endpoint is not a ws:// address' or nil
  end
  local says = string.match(fields[5], '^[%w._-]+$') and #fields[5] <= 64 and parse_count(fields[6])
    and parse_count(fields[7]) and parse_count(fields[8])
  return not says and 'offer, concurrent, lifetime or fresh is not one' or nil
end

-- Returns when a worker's heartbeat was, in ms, and by how many ms it may be later. `lastHeartbeat`
-- is in seconds in earlier releases of playwright-distributed, and in milliseconds in later ones.
local function beat_time(said, exact)
  if not said or said >= MIN_MILLISECONDS then return said, 0 end
  if exact and math.floor(exact / 1000) == said then return exact, 0 end
  return said * 1000, 999
end

-- Returns the run id of the server. A restarted or promoted server may have lost the last leases,
-- since persistence and replication lag behind. Empty for a user without permission for INFO.
local server_run
local function server_run_id()
  if not server_run then
    local info = redis.pcall('INFO', 'server')
    server_run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
  end
  return server_run
end

-- Reads a worker from its hash; nil if there is none, false and the reason if it is invalid.
-- `defaults` applies to what the hash omits; without it, the defaults from when the worker was
-- indexed do.
local function load_worker(id, defaults)
  local kind = kind_of(id)
  if not kind then return false, 'it is not called KIND:NAME' end
  local fields = redis.pcall('HMGET', WORKER .. id, 'browserType', 'wsEndpoint', 'status', 'lastHeartbeat',
    'offer',
    'concurrent', 'lifetime', 'fresh', 'beat', 'server', 'endpoint')
  if fields.err then return false, 'worker:' .. id .. ' is not a hash' end
  if not (fields[1] or fields[2] or fields[3] or fields[4] or fields[11]) then
    if redis.call('EXISTS', WORKER .. id) == 1 then return false, 'browserType is missing' end
    return nil
  end
  local worker = { id = id, kind = kind, endpoint = fields[2] or fields[11] or nil,
    is_available = fields[3] == 'available',
    describes_itself = fields[5] ~= false }
  local late
  worker.beat, late = beat_time(parse_count(fields[4]), parse_count(fields[9]))
  local why = describe_fault(worker, fields)
  if why then return false, why end
  if worker.describes_itself then
    worker.offer, worker.concurrent, worker.limit, worker.fresh = fields[5], tonumber(fields[6]),
      tonumber(fields[7]), tonumber(fields[8])
  else
    local taken = defaults or index_entry(id) or DEFAULTS
    worker.offer, worker.concurrent, worker.limit, worker.fresh = 'playwright', taken.concurrent, taken.limit,
      taken.fresh
  end
  worker.stale_at = worker.beat + worker.fresh + late
  worker.is_fresh = TIME < worker.stale_at
-- Whether all of its sessions are known.
  worker.is_sure = not worker.describes_itself or fields[10] == server_run_id() or fields[10] == ''
    or server_run_id() == ''
  return worker
end

-- Returns the key of a worker's sessions. The list of all sessions has them as well.
local function held_key(id)
  return index_key(FLEET .. 'held:' .. id, 'zset', function(key)
    for _, entry in ipairs(redis.call('ZRANGEBYLEX', SESSIONS, '[' .. id .. ' ', '(' .. id .. '!')) do
      local session_id = string.sub(entry, #id + 2)
      local ends = redis.pcall('HGET', FLEET .. 'session:' .. session_id, 'until')
      if type(ends) == 'string' and parse_count(ends) then redis.call('ZADD', key, ends, session_id) end
    end
  end)
end

-- Counts the leased sessions of a worker.
local function leased_count(id) return redis.call('ZCOUNT', held_key(id), AFTER_NOW, '+inf') end

-- Counts the sessions that other programs report for a worker, and since when: what they added to
-- the last published number. `fleet:counts` has 'LEASED FOREIGN SINCE'. A program that dies leaves
-- its count, so a count expires.
local function foreign_count(id)
  local ours, before, since = string.match(redis.call('HGET', COUNTS, id) or '', '^(%d+) (%d+) (%d+)$')
  local shown = redis.call('HGET', ACTIVE, id)
  local is_number = shown and #shown <= 7 and string.match(shown, '^%-?%d+$')
  local count = is_number and math.max(0, tonumber(shown) - (tonumber(ours) or 0)) or 0
  if count ~= tonumber(before) then return count, TIME end
  if TIME - tonumber(since) >= FOREIGN_COUNT_TTL then return 0, TIME end
  return count, tonumber(since)
end

-- Counts all sessions of a worker.
local function active_count(id) return leased_count(id) + (foreign_count(id)) end

-- Counts the sessions that a worker has ever had.
local function lifetime_count(id)
  return math.min(parse_count(redis.call('HGET', LIFETIME, id)) or 0, 4294967295)
end

local function is_drain_ordered(id) return redis.pcall('GET', WORKER .. 'cmd:' .. id) == 'shutdown' end

local function is_spent(worker) return worker.limit > 0 and lifetime_count(worker.id) >= worker.limit end

local function live_key(kind, offer) return index_key(FLEET .. 'live:' .. kind .. ':' .. offer, 'zset') end
local function leaving_key(kind, offer)
  return index_key(FLEET .. 'leaving:' .. kind .. ':' .. offer, 'zset')
end
local function limits_key(kind, offer) return index_key(FLEET .. 'limits:' .. kind .. ':' .. offer, 'set') end
local function free_key(kind, offer, limit)
  return index_key(FLEET .. 'free:' .. kind .. ':' .. offer .. ':' .. int_text(limit), 'zset')
end

local function remove_from_pool(id, kind, at)
  local pool = free_key(kind, at.offer, at.limit)
  if redis.call('ZREM', pool, id) == 1 and redis.call('EXISTS', pool) == 0 then
    redis.call('SREM', limits_key(kind, at.offer), int_text(at.limit))
  end
end

-- Whether a lease should consider a worker at all.
local function is_leasable(worker, sessions)
  if sessions >= worker.concurrent or is_spent(worker) or redis.call('ZSCORE', GRACE, worker.id) then
    return false
  end
  return not worker.describes_itself or worker.is_available and worker.is_fresh and worker.is_sure
    and not is_drain_ordered(worker.id)
end

-- Its score in the index: the highest lifetime count first, then the fewest sessions.
local function rating(worker, sessions)
  return lifetime_count(worker.id) * RATING_WIDTH + RATING_WIDTH - 1 - math.min(sessions, RATING_WIDTH - 1)
end

-- Updates a worker in every index. Returns whether leases find it now and did not before.
local function index_worker(worker)
  local record = worker.offer .. ' ' .. int_text(worker.concurrent) .. ' ' .. int_text(worker.limit) .. ' '
    .. int_text(worker.fresh)
  local before, sessions = index_entry(worker.id), active_count(worker.id)
  if before and (before.offer ~= worker.offer or before.limit ~= worker.limit) then
    redis.call('ZREM', live_key(worker.kind, before.offer), worker.id)
    redis.call('ZREM', leaving_key(worker.kind, before.offer), worker.id)
    remove_from_pool(worker.id, worker.kind, before)
  end
  redis.call('HSET', PLACES, worker.id, record)
  redis.call('ZADD', MEMBERS, 0, worker.id)
  redis.call('ZADD', STALE, int_text(worker.stale_at), worker.id)
  local here, other = live_key(worker.kind, worker.offer), leaving_key(worker.kind, worker.offer)
  if not worker.is_available then here, other = other, here end
  redis.call('ZADD', here, int_text(worker.stale_at), worker.id)
  redis.call('ZREM', other, worker.id)
  if not is_leasable(worker, sessions) then
    remove_from_pool(worker.id, worker.kind, worker)
    return false
  end
  redis.call('SADD', limits_key(worker.kind, worker.offer), int_text(worker.limit))
  return redis.call('ZADD', free_key(worker.kind, worker.offer, worker.limit),
    int_text(rating(worker, sessions)), worker.id) == 1
end

-- Removes a worker whose hash is gone from the lease indexes; the next reap removes the rest.
local function unindex_worker(id)
  local at, kind = index_entry(id), kind_of(id)
  if not at then return end
  redis.call('ZREM', live_key(kind, at.offer), id)
  redis.call('ZREM', leaving_key(kind, at.offer), id)
  remove_from_pool(id, kind, at)
  redis.call('ZADD', STALE, 0, id)
end

local function write_worker(worker)
  local key = WORKER .. worker.id
  if redis.call('TYPE', key).ok ~= 'hash' then redis.call('DEL', key) end
-- Earlier releases of playwright-distributed read `wsEndpoint`, later ones `id`, `endpoint` and
-- `startedAt`.
  redis.call('HSET', key, 'browserType', worker.kind, 'wsEndpoint', worker.endpoint, 'status', worker.status,
    'lastHeartbeat',
    int_text(math.floor(TIME / 1000)), 'id', string.sub(worker.id, #worker.kind + 2), 'endpoint',
      worker.endpoint, 'offer', worker.offer, 'concurrent', worker.concurrent, 'lifetime', worker.limit,
      'fresh', worker.fresh,
    'beat', int_text(TIME), 'server', server_run_id(), 'detail', worker.detail)
  redis.call('HSETNX', key, 'startedAt', int_text(TIME))
  redis.call('PEXPIRE', key, int_text(worker.fresh + KEY_GRACE_MS))
end

-- Orders a worker to drain. Workers of other programs also listen on a channel named like the key.
-- The order stands even if the user may not publish there.
local function order_drain(worker)
  local key = WORKER .. 'cmd:' .. worker.id
  redis.call('SET', key, 'shutdown', 'EX', ORDER_TTL)
  if not worker.describes_itself then notify(key, 'shutdown') end
end

-- Returns the workers of a call: each has id, offer, endpoint, status, concurrent sessions, limit of
-- lifetime sessions, for how many ms a heartbeat is fresh, and detail.
local function described_workers()
  for _, worker in ipairs(args.workers) do
    worker.kind, worker.is_available = kind_of(worker.id), worker.status == 'available'
    worker.describes_itself, worker.is_fresh, worker.is_sure = true, true, true
    worker.beat, worker.stale_at = TIME, TIME + worker.fresh
  end
  return args.workers
end

-- Publishes how many sessions a worker has.
local function publish_count(id)
  local ours, count, since = leased_count(id), foreign_count(id)
  redis.call('HSET', COUNTS, id, ours .. ' ' .. int_text(count) .. ' ' .. int_text(since))
  redis.call('HSET', ACTIVE, id, int_text(ours + count))
end
