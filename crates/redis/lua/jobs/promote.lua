-- Moves jobs whose time has come to where workers take them, a bounded number per queue and so many bytes in all, or one
-- job however large. What is no envelope moves too: whoever claims it buries it. Also hands out errands that nobody has carried
-- on for a while, a bounded number, each to one caller for a while. Says of alarms of runs only when the next is due: another
-- script tells the runs. A key that holds something else than it should is passed over.
-- KEYS  jobs, errands, timers, then per queue: target, scheduled
-- ARGV  limit, bytes, limit of errands, grace in ms, then per queue: kind ('s' or 'l'), name
-- Returns how many moved, how many ms until the next is due (-1: none is scheduled), how many ms until the next alarm is
-- (-1: there is none), how many keys are damaged, then what is said of each, then errands.
local jobs, errands, limit, bytes, time = KEYS[1], KEYS[2], tonumber(ARGV[1]), tonumber(ARGV[2]), now()
local moved, soonest, damaged = 0, -1, {}

-- What another program has put at the end of time (`+inf`) is due never.
local NEVER = 9007199254740991

local function note(due)
  local wait = math.max(0, due - time)
  if due < NEVER and (soonest < 0 or wait < soonest) then soonest = wait end
end

-- Does one part of the work. What keeps it from being done is said, and the other parts are done all the same. `check` is
-- called if that has to be found out: it fails with the name of the key.
local function apart(work, check)
  local is_done, why = pcall(work)
  if is_done then return end
  local is_sound, reason = pcall(check)
  if not is_sound then why = reason end
  if type(why) == 'table' then why = why.err end
  damaged[#damaged + 1] = string.gsub(tostring(why), '^.-WRONGTYPE ', '')
end

-- Makes one job ready; returns its size.
local function move(q, envelope)
  local id = id_in(envelope)
  local chain = id and chain_of(id)
  put(q, chain, chain and redis.call('HEXISTS', jobs, chain) == 1, envelope, 0, time)
  redis.call('ZREM', q.scheduled, envelope)
  moved = moved + 1
  return #envelope
end

local function promote(q)
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

local alarm, handed_out = '-1', {}

local function look_at_alarms()
  local due = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
  if due and tonumber(due) < NEVER then alarm = whole(math.max(0, tonumber(due) - time)) end
end

local function hand_out_errands()
  local first = redis.call('ZRANGE', errands, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= time then
    for i, errand in ipairs(redis.call('ZRANGEBYSCORE', errands, '-inf', time, 'LIMIT', 0, tonumber(ARGV[3]))) do
      redis.call('ZADD', errands, whole(time + tonumber(ARGV[4])), errand)
      handed_out[i] = errand
    end
    first = redis.call('ZRANGE', errands, 0, 0, 'WITHSCORES')
  end
  if first[2] then note(tonumber(first[2])) end
end

for i = 5, #ARGV, 2 do
  local q = { kind = ARGV[i], name = ARGV[i + 1], target = KEYS[i - 1], scheduled = KEYS[i], jobs = jobs }
  apart(function() promote(q) end, function() expect_queue(q) end)
end
apart(look_at_alarms, function() expect(KEYS[3], 'zset') end)
apart(hand_out_errands, function() expect(errands, 'zset') end)
local out = { moved, whole(soonest), alarm, #damaged }
for _, what in ipairs(damaged) do out[#out + 1] = what end
for _, errand in ipairs(handed_out) do out[#out + 1] = errand end
return out
