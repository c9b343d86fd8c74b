-- For scripts that end chains; loaded after `queue.lua`. Such scripts begin with
-- KEYS  jobs, waiters, notices, errands, keyed: the shared keys of a shard
-- Work that cannot happen in the same script, because it concerns another shard or very many jobs,
-- is an entry of the outbox (key `errands`). The script adds the entry, its caller processes it at
-- once, and any process that promotes jobs processes it if the caller dies:
--   'w MARK'              register a blocked job with the chains it waits for
--   'c CHAIN'             notify the jobs that wait for a closed chain
--   'u EXPIRY CHAIN KEY'  expire the deduplication key of a closed chain then (0: now)
--   'k KEY'               create the chain for which a deduplication key is reserved
--   'e RUN'               apply the pending effects of a run
--   'p KIND ENTRY QUEUE'  complete a purge: delete what was set apart, and entries up to this one

-- How long the caller has for an outbox entry, in ms, before others process it. Also in
-- `outbox.rs`.
local GRACE = 2000

-- `outbox` collects the entries that a script adds, `ended` the wake-ups about ended jobs,
-- `next_queues` where chains continue.
local function shard_context(channel)
  return { jobs = KEYS[1], waiters = KEYS[2], notices = KEYS[3], errands = KEYS[4], keyed = KEYS[5],
    channel = channel, outbox = {}, ended = {}, next_queues = {} }
end

-- Adds an outbox entry, for the caller at once and for any promoter after the grace period.
local function add_outbox(shard, outbox_entry)
  redis.call('ZADD', shard.errands, int_text(now() + GRACE), outbox_entry)
  shard.outbox[#shard.outbox + 1] = outbox_entry
end

-- Returns the first waiter of a chain: 'CHAIN MARK POSITION QUEUE JOB'. A space sorts before, and
-- an exclamation mark after, every character that can follow the chain in such a member.
local function first_waiter(shard, chain)
  return redis.call('ZRANGEBYLEX', shard.waiters, '[' .. chain .. ' ', '(' .. chain .. '!', 'LIMIT', 0, 1)[1]
end

-- Whether a job can wait for a chain. A closed chain whose waiters are not yet notified is not
-- open.
local function is_open(shard, chain)
  return redis.call('HEXISTS', shard.jobs, chain) == 1 and redis.call('HEXISTS', shard.notices, chain) == 0
end

-- Ends what belongs to a chain beside its job: notifies its waiters and expires its key. `record`
-- is '' if the chain was removed, else the record that is kept for `ms`.
local function close_chain(shard, chain, record, ms)
  if redis.call('EXISTS', shard.waiters, shard.keyed) == 0 then return end
  if first_waiter(shard, chain) then
    redis.call('HSETNX', shard.notices, chain, record)
    add_outbox(shard, 'c ' .. chain)
  end
  local key = redis.call('HGET', shard.keyed, chain)
  if key then
    redis.call('HDEL', shard.keyed, chain)
    add_outbox(shard, 'u ' .. (record == '' and '0' or int_text(now() + ms)) .. ' ' .. chain .. ' ' .. key)
  end
end

local function expect_shard(shard)
  expect_type(shard.jobs, 'hash')
  expect_type(shard.waiters, 'zset')
  expect_type(shard.notices, 'hash')
  expect_type(shard.errands, 'zset')
  expect_type(shard.keyed, 'hash')
end

-- Publishes the wake-ups about jobs that ended, in one message.
local function publish_ended(shard)
  if #shard.ended > 0 then notify(shard.channel, table.concat(shard.ended, '\n')) end
end

-- Appends the outbox entries that a script added to its reply.
local function with_outbox(out, shard)
  for _, outbox_entry in ipairs(shard.outbox) do out[#out + 1] = outbox_entry end
  return out
end
