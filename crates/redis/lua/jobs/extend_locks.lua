-- Extends the locks of jobs taken from a list; with a life of 0, only says whether they are held. A lock that has run out, as all
-- do when somebody sets the server's clock forward, is held until a rescue has removed the trace of it. A job that was never
-- locked (token '0') is noted as one that runs, so that it can be found and cancelled.
-- KEYS  cancelled, running, untracked, then the lock of each job
-- ARGV  life of a lock in ms, worker, then per job: token, chain, job id
-- Returns 1 held, 2 held but to be cancelled, 0 lost.
local out, life = {}, tonumber(ARGV[1])
expect(KEYS[1], 'hash')
expect(KEYS[2], 'hash')
expect(KEYS[3], 'hash')

local function hold(token, lock, id)
  local held = redis.pcall('GET', lock)
  if not held then
    local trace = redis.call('HGET', KEYS[2], id)
    if not trace or string.match(trace, '^%d+') ~= token then return false end
    if life > 0 then redis.call('SET', lock, token, 'PX', ARGV[1]) end
    return true
  end
  if held == token and life > 0 then redis.call('PEXPIRE', lock, ARGV[1]) end
  return held == token
end

local function note(id)
  if life > 0 then redis.call('HSET', KEYS[3], id, whole(now() + life) .. ' ' .. ARGV[2]) end
end

for i = 3, #ARGV, 3 do
  local n, token, id = i / 3, ARGV[i], ARGV[i + 2]
  local held = true
  if token == '0' then note(id) else held = hold(token, KEYS[n + 3], id) end
  out[n] = held and 1 + redis.call('HEXISTS', KEYS[1], ARGV[i + 1]) or 0
end
return out
