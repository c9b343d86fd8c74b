-- Locks the ids of jobs that were taken from a list, so that each id has one runner. The copies that the pop made go: what is
-- locked has a trace, and what is not belongs to somebody else or was cancelled. A job without such a copy was given up.
-- KEYS  running, dropped, paused, taken, takers, then the lock of each job
-- ARGV  life of a lock in ms, worker, mark of the pop, then per job: job id, envelope
-- Returns 'paused' if the queue is; else the token, and for each job 1 locked, 0 another has it, 2 cancelled.
if redis.call('EXISTS', KEYS[3]) == 1 then return 'paused' end
-- What could fail behind the first write: each fails here if its key holds something else.
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
