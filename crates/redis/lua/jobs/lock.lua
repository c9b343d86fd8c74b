-- Locks the ids of jobs that were taken from a list, so that each id has one runner.
-- KEYS  running, cancelled, paused, jobs, then the lock of each job
-- ARGV  life of a lock in ms, then job ids
-- Returns 'paused' if the queue is; else the token, and for each job 1 locked, 0 another has it, 2 cancelled.
if redis.call('EXISTS', KEYS[3]) == 1 then return 'paused' end
local t = redis.call('TIME')
local token = string.format('%.0f', tonumber(t[1]) * 1000000 + tonumber(t[2]))
local out = { token }
for i = 2, #ARGV do
  local id = ARGV[i]
  if redis.call('HDEL', KEYS[2], id) == 1 then
    redis.call('HDEL', KEYS[4], id)
    out[i] = 2
  elseif redis.call('SET', KEYS[i + 3], token, 'NX', 'PX', ARGV[1]) then
    redis.call('HSET', KEYS[1], id, token)
    out[i] = 1
  else
    out[i] = 0
  end
end
return out
