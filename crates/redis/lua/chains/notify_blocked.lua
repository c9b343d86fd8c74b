-- Notifies blocked jobs of one queue about the chains they wait for. A job whose last chain has
-- closed becomes ready, or scheduled if it is not due, with all notices in its envelope. May be
-- repeated.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, then the waits of each
--       job
-- ARGV  one map: channel, queue, notices, jobs: id, wait_id and chains of each. A chain has its
--       position, and the number of its notice, or none if it is open and the job registered
-- Returns for each: 0 no longer blocked, 1 still blocked, 2 unblocked, 3 its wait is damaged
-- (nothing written).
local args, time, out = cmsgpack.unpack(ARGV[1]), now(), {}
local shard = shard_context(args.channel)
local queue = { kind = 's', name = args.queue, target = KEYS[6], scheduled = KEYS[7], blocked = KEYS[8],
  jobs = shard.jobs }
expect_shard(shard)
expect_queue(queue)

-- Reads a wait: the number of open and of unregistered chains, when the job is due, the number of
-- all chains, the envelope. Nil if anything is missing: other programs may have written there.
local function read_wait(waits)
  local fields = redis.pcall('HMGET', waits, 'open', 'unknown', 'at', 'of', 'envelope')
  if fields.err then return nil end
  local wait = { key = waits, open = tonumber(fields[1] or ''), unknown = tonumber(fields[2] or ''),
    at = tonumber(fields[3] or ''),
    of = tonumber(fields[4] or ''), envelope = fields[5] }
  local is_sound = wait.open and wait.unknown and wait.at and wait.of and wait.envelope
    and wait.of <= redis.call('HLEN', waits)
  return is_sound and wait or nil
end

local function apply_status(wait, position, notice)
  local open = redis.call('HGET', wait.key, 'w' .. position)
  if not open then return end
  local known = string.sub(open, 1, 1) == '-'
  if notice then
    redis.call('HSET', wait.key, 't' .. position, notice)
    redis.call('HDEL', wait.key, 'w' .. position)
    wait.open = wait.open - 1
  elseif not known then
    redis.call('HSET', wait.key, 'w' .. position, '-' .. string.sub(open, 2))
  end
  if not known then wait.unknown = wait.unknown - 1 end
end

-- Returns the envelope with the notices before its last brace, as `with_blockers` of the client
-- does.
local function with_blockers(wait)
  local envelope, parts = wait.envelope, {}
  local last = #envelope
  while last > 0 and string.find(string.sub(envelope, last, last), '%s') do last = last - 1 end
  for position = 1, wait.of do parts[position] = redis.call('HGET', wait.key, 't' .. position) or 'null' end
  return string.sub(envelope, 1, last - 1) .. ',"blockers":[' .. table.concat(parts, ',') .. ']}'
end

for n, job in ipairs(args.jobs) do
  local chain, wait = chain_of(job.id), nil
  out[n] = 0
  if redis.call('HGET', shard.jobs, chain) == 'b ' .. queue.name .. ' ' .. job.id .. ' ' .. job.wait_id then
    wait = read_wait(KEYS[8 + n])
    if not wait then out[n] = 3 end
  end
  if wait then
    for _, blocker in ipairs(job.chains) do
      apply_status(wait, int_text(blocker.position), blocker.notice and args.notices[blocker.notice])
    end
    out[n] = wait.open <= 0 and 2 or 1
    if wait.unknown <= 0 then redis.call('ZREM', shard.errands, 'w ' .. job.wait_id) end
    if out[n] == 2 then
      local envelope = with_blockers(wait)
      redis.call('ZREM', queue.blocked, job.id .. ' ' .. job.wait_id)
      redis.call('DEL', wait.key)
      put_job(queue, chain, true, envelope, wait.at, time)
    else
      redis.call('HSET', wait.key, 'open', int_text(wait.open), 'unknown', int_text(wait.unknown))
    end
  end
end
announce_earlier(queue, shard.channel)
return out
