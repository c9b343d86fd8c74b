-- Shared by every script. Index values (hash `jobs`, field = job id):
--   's QUEUE ENTRY'   in the stream, waiting or pending       'l QUEUE'         in the list, or taken from it
--   'S QUEUE MEMBER'  scheduled for the stream                'L QUEUE MEMBER'  scheduled for the list
--   'd QUEUE ENTRY'   in the stream's dead letters            'D QUEUE ENTRY'   in the list's dead letters

local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- The pending entry { id, consumer, idle, deliveries }; nil if it is not pending, or if stream and group are gone
-- altogether (FLUSHALL), which ends every lease and is no error.
local function lease(stream, group, entry)
  local found = redis.pcall('XPENDING', stream, group, entry, entry, 1)
  if not found.err then return found[1] end
  if not string.find(found.err, 'NOGROUP', 1, true) then error(found.err) end
end

-- Makes a job wait: at once in `target`, or from `at` on in `scheduled`. `q` has kind ('s' or 'l'), name,
-- target, scheduled, jobs. Returns true if it is now the earliest of the scheduled ones.
local function put(q, id, tracked, envelope, at, time)
  if at > time then
    local first = redis.call('ZRANGE', q.scheduled, 0, 0, 'WITHSCORES')
    redis.call('ZADD', q.scheduled, string.format('%.0f', at), envelope)
    if tracked then redis.call('HSET', q.jobs, id, string.upper(q.kind) .. ' ' .. q.name .. ' ' .. envelope) end
    return first[2] == nil or at < tonumber(first[2])
  elseif q.kind == 's' then
    local entry = redis.call('XADD', q.target, '*', 'data', envelope)
    if tracked then redis.call('HSET', q.jobs, id, 's ' .. q.name .. ' ' .. entry) end
  else
    redis.call('LPUSH', q.target, envelope)
    if tracked then redis.call('HSET', q.jobs, id, 'l ' .. q.name) end
  end
  return false
end

-- Ends a claim whose lease is already given up: op is 'finish', 'requeue' or 'bury'. A requeue of a job that
-- is to be cancelled removes it instead. Returns true as `put` does.
local function apply(q, s)
  local cancelled = redis.call('HDEL', q.cancelled, s.id) == 1
  if s.op == 'bury' then
    local old = redis.call('HGET', q.jobs, s.id)
    local dead = q.kind == 's' and 'd ' or 'D '
    local before = old and string.match(old, '^' .. dead .. '[^ ]+ (.+)$')
    if before then redis.call('XDEL', q.dlq, before) end
    local entry = redis.call('XADD', q.dlq, '*', 'data', s.data)
    redis.call('HSET', q.jobs, s.id, dead .. q.name .. ' ' .. entry)
  elseif s.op == 'requeue' and not cancelled then
    local time = now()
    return put(q, s.id, s.tracked, s.data, time + s.ms, time)
  else
    redis.call('HDEL', q.jobs, s.id)
    if s.op == 'finish' and s.data ~= '' then
      redis.call('SET', s.record, s.data, 'PX', s.ms)
      redis.call('PUBLISH', q.channel, 'finished ' .. s.id)
    end
  end
  return false
end

-- Fails if a key holds something else than it should. Scripts do not roll back, so this comes before the first
-- write.
local function expect(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    error('WRONGTYPE ' .. key .. ' holds a ' .. found .. ' instead of a ' .. kind)
  end
end

local function expect_queue(q)
  expect(q.target, q.kind == 's' and 'stream' or 'list')
  expect(q.scheduled, 'zset')
  expect(q.jobs, 'hash')
  if q.dlq then expect(q.dlq, 'stream') end
end
