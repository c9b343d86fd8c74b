-- Tells blocked jobs of one queue what is known of chains they wait for. A job whose last chain has closed becomes
-- ready, or scheduled if it is not due, with what it was told in its envelope. Twice is once.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, then the waits of each job
-- ARGV  channel, queue, number of tellings, the tellings, then per job: job id, mark, number of chains, then per chain:
--       its position, and '-' if it is open and the job registered with it, else the number of the telling
-- Returns for each: 0 it does not wait any more, 1 it still does, 2 it was released.
local h = home()
local q = { kind = 's', name = ARGV[2], target = KEYS[6], scheduled = KEYS[7], blocked = KEYS[8], jobs = h.jobs }
local tellings, time, out, i = tonumber(ARGV[3]), now(), {}, 4 + tonumber(ARGV[3])
expect_home(h)
expect_queue(q)

local function note(waits, position, what)
  local open = redis.call('HGET', waits, 'w' .. position)
  if not open then return end
  local known = string.sub(open, 1, 1) == '-'
  if what ~= '-' then
    redis.call('HSET', waits, 't' .. position, ARGV[3 + tonumber(what)])
    redis.call('HDEL', waits, 'w' .. position)
    redis.call('HINCRBY', waits, 'open', -1)
  elseif not known then
    redis.call('HSET', waits, 'w' .. position, '-' .. string.sub(open, 2))
  end
  if not known then redis.call('HINCRBY', waits, 'unknown', -1) end
end

-- The envelope with what the job was told: before its last brace, as the client's own `with_blockers` does.
local function told(waits)
  local envelope = redis.call('HGET', waits, 'envelope')
  local last, parts = #envelope, {}
  while last > 0 and string.find(string.sub(envelope, last, last), '%s') do last = last - 1 end
  for position = 1, tonumber(redis.call('HGET', waits, 'of')) do
    parts[position] = redis.call('HGET', waits, 't' .. position)
  end
  return string.sub(envelope, 1, last - 1) .. ',"blockers":[' .. table.concat(parts, ',') .. ']}'
end

local n = 0
while i <= #ARGV do
  n = n + 1
  local id, mark, waits, last = ARGV[i], ARGV[i + 1], KEYS[8 + n], i + 2 + 2 * tonumber(ARGV[i + 2])
  local chain = chain_of(id)
  out[n] = 0
  if redis.call('HGET', h.jobs, chain) == 'b ' .. q.name .. ' ' .. id .. ' ' .. mark then
    for c = i + 3, last, 2 do note(waits, ARGV[c], ARGV[c + 1]) end
    local counts = redis.call('HMGET', waits, 'open', 'unknown', 'at')
    out[n] = tonumber(counts[1]) == 0 and 2 or 1
    if tonumber(counts[2]) == 0 then redis.call('ZREM', h.errands, 'w ' .. mark) end
    if out[n] == 2 then
      local envelope = told(waits)
      redis.call('ZREM', q.blocked, id .. ' ' .. mark)
      redis.call('DEL', waits)
      put(q, chain, true, envelope, tonumber(counts[3]), time)
    end
  end
  i = last + 1
end
announce(q, h.channel)
return out
