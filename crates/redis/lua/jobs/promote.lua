-- Moves jobs whose time has come to where workers take them, a bounded number per queue and so many bytes in all, or one
-- job however large. What is no envelope moves too: whoever claims it buries it. Also hands out errands that nobody has carried
-- on for a while, a bounded number, each to one caller for a while. Says of alarms of runs only when the next is due: another
-- script tells the runs.
-- KEYS  jobs, errands, timers, then per queue: target, scheduled
-- ARGV  limit, bytes, limit of errands, grace in ms, then per queue: kind ('s' or 'l'), name
-- Returns how many moved, how many ms until the next is due (-1: none is scheduled), how many ms until the next alarm is
-- (-1: there is none), then errands.
local jobs, errands, limit, bytes, time = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2]), now()
local moved, soonest = 0, -1
local function note(due)
  local wait = math.max(0, due - time)
  if soonest < 0 or wait < soonest then soonest = wait end
end

-- Makes one job ready; returns its size.
local function move(q, envelope)
  redis.call('ZREM', q.scheduled, envelope)
  local id = id_in(envelope)
  local chain = id and chain_of(id)
  put(q, chain, chain and redis.call('HEXISTS', jobs, chain) == 1, envelope, 0, time)
  moved = moved + 1
  return #envelope
end

for i = 5, #ARGV, 2 do
  local q = { kind = ARGV[i], name = ARGV[i + 1], target = KEYS[i - 1], scheduled = KEYS[i], jobs = jobs }
  local first = redis.call('ZRANGE', q.scheduled, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= time and bytes > 0 then
    expect_queue(q)
    bytes = collect(limit, bytes, function(_, count)
      return redis.call('ZRANGEBYSCORE', q.scheduled, '-inf', time, 'LIMIT', 0, count)
    end, function(envelope) return move(q, envelope) end)
    first = redis.call('ZRANGE', q.scheduled, 0, 0, 'WITHSCORES')
  end
  if first[2] then note(tonumber(first[2])) end
end
local out = { moved, 0, '-1' }
local alarm = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
if alarm then out[3] = whole(math.max(0, tonumber(alarm) - time)) end
local first = redis.call('ZRANGE', errands, 0, 0, 'WITHSCORES')
if first[2] and tonumber(first[2]) <= time then
  for _, errand in ipairs(redis.call('ZRANGEBYSCORE', errands, '-inf', time, 'LIMIT', 0, tonumber(ARGV[3]))) do
    redis.call('ZADD', errands, whole(time + tonumber(ARGV[4])), errand)
    out[#out + 1] = errand
  end
  first = redis.call('ZRANGE', errands, 0, 0, 'WITHSCORES')
end
if first[2] then note(tonumber(first[2])) end
out[2] = whole(soonest)
return out
