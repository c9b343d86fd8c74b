-- Extends the locks of jobs taken from a list; with a life of 0, only says whether they are held. A lock that has run out, as all
-- do when somebody sets the server's clock forward, is held until a rescue has removed the trace of it.
-- KEYS  cancelled, running, then the lock of each job
-- ARGV  life of a lock in ms, then per job: token, chain, job id
-- Returns 1 held, 2 held but to be cancelled, 0 lost.
local out = {}
expect(KEYS[1], 'hash')
expect(KEYS[2], 'hash')
for i = 2, #ARGV, 3 do
  local n, token = (i + 1) / 3, ARGV[i]
  local lock = KEYS[n + 2]
  local held = redis.pcall('GET', lock)
  if not held then
    local trace = redis.call('HGET', KEYS[2], ARGV[i + 2])
    if trace and string.match(trace, '^%d+') == token then
      if ARGV[1] ~= '0' then redis.call('SET', lock, token, 'PX', ARGV[1]) end
      held = token
    end
  elseif held == token and ARGV[1] ~= '0' then
    redis.call('PEXPIRE', lock, ARGV[1])
  end
  out[n] = held == token and 1 + redis.call('HEXISTS', KEYS[1], ARGV[i + 1]) or 0
end
return out
