-- Behind the prelude of scripts by which chains end. They are given as their first
-- KEYS  jobs, waiters, notices, errands, keyed: what a shard has for all its queues
-- ARGV  the channel
-- Whatever cannot be done in the same step, because another shard is concerned or very many are, is an *errand*: written down
-- here in the same step, carried on by the caller at once, and by anyone who promotes if the caller dies:
--   'w MARK'              a blocked job is still to be registered with chains it waits for
--   'c CHAIN'             a chain has closed; those that wait for it are to be told
--   'u EXPIRY CHAIN KEY'  a chain has closed; its deduplication key is to expire at that time (0: go at once)
--   'k KEY'               a deduplication key is reserved for a chain that is still to be made
--   'e RUN'               a run has effects that are pending; they are to be carried out
--   'p KIND ENTRY QUEUE'  a purge has begun; what was set apart, and entries up to this one, are to be deleted

-- How long whoever makes an errand has for it, in ms, before others carry it on.
local GRACE = 2000

-- `owed` collects the errands a script has made, `ended` the wake-ups about jobs that ended.
local function home()
  return { jobs = KEYS[1], waiters = KEYS[2], notices = KEYS[3], errands = KEYS[4], keyed = KEYS[5],
    channel = ARGV[1], owed = {}, ended = {} }
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

local function expect_home(h)
  expect(h.jobs, 'hash')
  expect(h.waiters, 'zset')
  expect(h.notices, 'hash')
  expect(h.errands, 'zset')
  expect(h.keyed, 'hash')
end

-- Publishes the wake-ups about jobs that ended, in one message.
local function publish_ends(h)
  if #h.ended > 0 then notify(h.channel, table.concat(h.ended, '\n')) end
end

-- An answer: what a script has to say, then the errands it has made.
local function with_owed(out, h)
  for _, errand in ipairs(h.owed) do out[#out + 1] = errand end
  return out
end
