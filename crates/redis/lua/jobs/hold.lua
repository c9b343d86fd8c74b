-- Extends the locks of jobs taken from a list; with a life of 0, only says whether they are held.
-- KEYS  cancelled, then the lock of each job
-- ARGV  life of a lock in ms, then per job: token, job id
-- Returns 1 held, 2 held but to be cancelled, 0 lost.
local out = {}
expect(KEYS[1], 'hash')
for i = 2, #ARGV, 2 do
  local n = i / 2
  local lock = KEYS[n + 1]
  if redis.pcall('GET', lock) == ARGV[i] then
    if ARGV[1] ~= '0' then redis.call('PEXPIRE', lock, ARGV[1]) end
    out[n] = 1 + redis.call('HEXISTS', KEYS[1], ARGV[i + 1])
  else
    out[n] = 0
  end
end
return out
