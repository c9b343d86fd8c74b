-- Moves jobs whose time has come to where workers take them, a bounded number per queue. What is no envelope
-- moves too: whoever claims it buries it.
-- KEYS  jobs, then per queue: target, scheduled
-- ARGV  limit, then per queue: kind ('s' or 'l'), name
-- Returns how many moved, and how many ms until the next is due (-1: none is scheduled).
local jobs, limit, time = KEYS[1], tonumber(ARGV[1]), now()
local moved, soonest = 0, -1
for i = 2, #ARGV, 2 do
  local q = { kind = ARGV[i], name = ARGV[i + 1], target = KEYS[i], scheduled = KEYS[i + 1], jobs = jobs }
  local first = redis.call('ZRANGE', q.scheduled, 0, 0, 'WITHSCORES')
  local due = {}
  if first[2] and tonumber(first[2]) <= time then
    expect_queue(q)
    due = redis.call('ZRANGEBYSCORE', q.scheduled, '-inf', time, 'LIMIT', 0, limit)
  end
  for _, envelope in ipairs(due) do
    redis.call('ZREM', q.scheduled, envelope)
    local sound, read = pcall(cjson.decode, envelope)
    local id = sound and type(read) == 'table' and type(read.job_id) == 'string' and read.job_id
    put(q, id, id and redis.call('HEXISTS', jobs, id) == 1, envelope, 0, time)
    moved = moved + 1
  end
  if #due > 0 then first = redis.call('ZRANGE', q.scheduled, 0, 0, 'WITHSCORES') end
  if first[2] then
    local wait = math.max(0, tonumber(first[2]) - time)
    if soonest < 0 or wait < soonest then soonest = wait end
  end
end
return { moved, string.format('%.0f', soonest) }
