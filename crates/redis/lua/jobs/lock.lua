-- Locks the ids of popped list jobs, so that each id has one runner. Removes the copies that the
-- pop kept: a locked job has a running entry, any other belongs to another worker or was cancelled.
-- A job without a copy was given up.
-- KEYS  running, dropped, paused, taken, takers, then the lock of each job
-- ARGV  lifetime of a lock in ms, worker, id of the pop, then per job: job id, envelope
-- Returns 'paused' if the queue is; else the token, and for each job 1 locked, 0 locked by another,
-- 2 cancelled.
if redis.call('EXISTS', KEYS[3]) == 1 then return 'paused' end
-- Checks what could fail after the first write: each command fails on a key of the wrong type.
local has_dropped = redis.call('HLEN', KEYS[2]) > 0
redis.call('HLEN', KEYS[1])
redis.call('ZCARD', KEYS[5])
local t = redis.call('TIME')
local token = string.format('%.0f', tonumber(t[1]) * 1000000 + tonumber(t[2]))
local out = { token }
for i = 4, #ARGV, 2 do
  local n, id, chain = (i - 2) / 2, ARGV[i], chain_of(ARGV[i])
  local mine = redis.call('LREM', KEYS[4], 1, ARGV[i + 1]) == 1
  if mine and has_dropped and is_dropped(KEYS[2], chain, ARGV[i + 1]) then
    out[n + 1] = 2
  elseif mine and redis.call('SET', KEYS[n + 5], token, 'NX', 'PX', ARGV[1]) then
    redis.call('HSET', KEYS[1], id, token .. ' ' .. ARGV[2] .. ' ' .. ARGV[i + 1])
    out[n + 1] = 1
  else
    out[n + 1] = 0
  end
end
if redis.call('EXISTS', KEYS[4]) == 0 then redis.call('ZREM', KEYS[5], ARGV[3]) end
return out
