-- Tells blocked jobs of one queue what is known of chains they wait for. A job whose last chain has closed becomes
-- ready, or scheduled if it is not due, with what it was told in its envelope. Twice is once.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, then the waits of each job
-- ARGV  channel, queue, number of tellings, the tellings, then per job: job id, mark, number of chains, then per chain:
--       its position, and '-' if it is open and the job registered with it, else the number of the telling
-- Returns for each: 0 it does not wait any more, 1 it still does, 2 it was released, 3 with nothing written: what is kept of its
-- wait cannot be read.
local h = home()
local q = { kind = 's', name = ARGV[2], target = KEYS[6], scheduled = KEYS[7], blocked = KEYS[8], jobs = h.jobs }
local tellings, time, out, i = tonumber(ARGV[3]), now(), {}, 4 + tonumber(ARGV[3])
expect_home(h)
expect_queue(q)

-- What is kept of a wait: how many chains are open, and unknown, when the job is due, how many chains there are, the envelope.
-- Nil if anything of it is missing: other programs may have written there.
local function read_wait(waits)
  local f = redis.pcall('HMGET', waits, 'open', 'unknown', 'at', 'of', 'envelope')
  if f.err then return nil end
  local w = { key = waits, open = tonumber(f[1] or ''), unknown = tonumber(f[2] or ''), at = tonumber(f[3] or ''),
    of = tonumber(f[4] or ''), envelope = f[5] }
  local is_sound = w.open and w.unknown and w.at and w.of and w.envelope and w.of <= redis.call('HLEN', waits)
  return is_sound and w or nil
end

local function note(w, position, what)
  local open = redis.call('HGET', w.key, 'w' .. position)
  if not open then return end
  local known = string.sub(open, 1, 1) == '-'
  if what ~= '-' then
    redis.call('HSET', w.key, 't' .. position, ARGV[3 + tonumber(what)])
    redis.call('HDEL', w.key, 'w' .. position)
    w.open = w.open - 1
  elseif not known then
    redis.call('HSET', w.key, 'w' .. position, '-' .. string.sub(open, 2))
  end
  if not known then w.unknown = w.unknown - 1 end
end

-- The envelope with what the job was told: before its last brace, as the client's own `with_blockers` does.
local function told(w)
  local envelope, parts = w.envelope, {}
  local last = #envelope
  while last > 0 and string.find(string.sub(envelope, last, last), '%s') do last = last - 1 end
  for position = 1, w.of do parts[position] = redis.call('HGET', w.key, 't' .. position) or 'null' end
  return string.sub(envelope, 1, last - 1) .. ',"blockers":[' .. table.concat(parts, ',') .. ']}'
end

local n = 0
while i <= #ARGV do
  n = n + 1
  local id, mark, last = ARGV[i], ARGV[i + 1], i + 2 + 2 * tonumber(ARGV[i + 2])
  local chain, w = chain_of(id), nil
  out[n] = 0
  if redis.call('HGET', h.jobs, chain) == 'b ' .. q.name .. ' ' .. id .. ' ' .. mark then
    w = read_wait(KEYS[8 + n])
    if not w then out[n] = 3 end
  end
  if w then
    for c = i + 3, last, 2 do note(w, ARGV[c], ARGV[c + 1]) end
    out[n] = w.open <= 0 and 2 or 1
    if w.unknown <= 0 then redis.call('ZREM', h.errands, 'w ' .. mark) end
    if out[n] == 2 then
      local envelope = told(w)
      redis.call('ZREM', q.blocked, id .. ' ' .. mark)
      redis.call('DEL', w.key)
      put(q, chain, true, envelope, w.at, time)
    else
      redis.call('HSET', w.key, 'open', whole(w.open), 'unknown', whole(w.unknown))
    end
  end
  i = last + 1
end
announce(q, h.channel)
return out
