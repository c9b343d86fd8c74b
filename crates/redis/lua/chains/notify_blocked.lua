-- Notifies blocked jobs of one queue about the chains they wait for. A job whose last chain has
-- closed becomes ready, or scheduled if it is not due, with all notices in its envelope. May be
-- repeated.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, then the waits of each
--       job
-- ARGV  channel, queue, number of notices, the notices, then per job: job id, wait id, number of
--       chains, then per chain: its position, and '-' if it is open and the job registered, else
--       the number of its notice
-- Returns for each: 0 no longer blocked, 1 still blocked, 2 unblocked, 3 its wait is damaged
-- (nothing written).
local shard = shard_context()
local queue = { kind = 's', name = ARGV[2], target = KEYS[6], scheduled = KEYS[7], blocked = KEYS[8],
  jobs = shard.jobs }
local notices, time, out, i = tonumber(ARGV[3]), now(), {}, 4 + tonumber(ARGV[3])
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

local function apply_status(wait, position, status)
  local open = redis.call('HGET', wait.key, 'w' .. position)
  if not open then return end
  local known = string.sub(open, 1, 1) == '-'
  if status ~= '-' then
    redis.call('HSET', wait.key, 't' .. position, ARGV[3 + tonumber(status)])
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

local n = 0
while i <= #ARGV do
  n = n + 1
  local id, mark, last = ARGV[i], ARGV[i + 1], i + 2 + 2 * tonumber(ARGV[i + 2])
  local chain, wait = chain_of(id), nil
  out[n] = 0
  if redis.call('HGET', shard.jobs, chain) == 'b ' .. queue.name .. ' ' .. id .. ' ' .. mark then
    wait = read_wait(KEYS[8 + n])
    if not wait then out[n] = 3 end
  end
  if wait then
    for arg = i + 3, last, 2 do apply_status(wait, ARGV[arg], ARGV[arg + 1]) end
    out[n] = wait.open <= 0 and 2 or 1
    if wait.unknown <= 0 then redis.call('ZREM', shard.errands, 'w ' .. mark) end
    if out[n] == 2 then
      local envelope = with_blockers(wait)
      redis.call('ZREM', queue.blocked, id .. ' ' .. mark)
      redis.call('DEL', wait.key)
      put_job(queue, chain, true, envelope, wait.at, time)
    else
      redis.call('HSET', wait.key, 'open', int_text(wait.open), 'unknown', int_text(wait.unknown))
    end
  end
  i = last + 1
end
announce_earlier(queue, shard.channel)
return out
