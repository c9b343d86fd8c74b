-- Extends the locks of list jobs; with a lifetime of 0, only checks them. A lock that has expired,
-- as all do when the server's clock is set forward, counts as held until a rescue removes its
-- running entry. A job that was never locked (token '0') is recorded as running, so that it can be
-- found and cancelled.
-- KEYS  cancelled, running, untracked, then the lock of each job
-- ARGV  lifetime of a lock in ms, worker, then per job: token, chain, job id
-- Returns for each: 1 held, 2 held and cancelled, 0 lost.
local out, life = {}, tonumber(ARGV[1])
expect_type(KEYS[1], 'hash')
expect_type(KEYS[2], 'hash')
expect_type(KEYS[3], 'hash')

local function hold_lock(token, lock, id)
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

local function record_running(id)
  if life > 0 then redis.call('HSET', KEYS[3], id, int_text(now() + life) .. ' ' .. ARGV[2]) end
end

for i = 3, #ARGV, 3 do
  local n, token, id = i / 3, ARGV[i], ARGV[i + 2]
  local held = true
  if token == '0' then record_running(id) else held = hold_lock(token, KEYS[n + 3], id) end
  out[n] = held and 1 + redis.call('HEXISTS', KEYS[1], ARGV[i + 1]) or 0
end
return out
