-- Makes due jobs ready, a bounded number per queue and a bounded size in all, or one job however
-- large. Bytes that are no envelope move, too: the worker that claims them buries them. Also
-- returns outbox entries that are overdue, a bounded number, each to one caller per grace period.
-- Of the runs' timers it returns only when the next is due; another script fires them. Skips
-- damaged keys.
-- KEYS  jobs, errands, timers, then per queue: target, scheduled
-- ARGV  one map: limit, bytes, outbox_limit, grace (ms), queues: kind ('s' or 'l') and name of each
-- Returns how many moved, ms until the next job (-1: none is scheduled), ms until the next timer
-- (-1: none), the number of damaged keys, a description of each, then outbox entries.
local args, time = cmsgpack.unpack(ARGV[1]), now()
local jobs, errands, limit, bytes = KEYS[1], KEYS[2], args.limit, args.bytes
local moved, soonest, damaged = 0, -1, {}

-- A due time of another program at the end of time (`+inf`) never comes.
local NEVER = 9007199254740991

local function note_due(due)
  local wait = math.max(0, due - time)
  if due < NEVER and (soonest < 0 or wait < soonest) then soonest = wait end
end

-- Runs one part of the work. A failure is reported, and the other parts still run. `check` finds
-- the cause: it fails with the name of the key.
local function run_part(work, check)
  local is_done, why = pcall(work)
  if is_done then return end
  local is_sound, reason = pcall(check)
  if not is_sound then why = reason end
  if type(why) == 'table' then why = why.err end
  damaged[#damaged + 1] = string.gsub(tostring(why), '^.-WRONGTYPE ', '')
end

-- Makes one job ready; returns its size.
local function move(queue, envelope)
  local id = id_in(envelope)
  local chain = id and chain_of(id)
  put_job(queue, chain, chain and redis.call('HEXISTS', jobs, chain) == 1, envelope, 0, time)
  redis.call('ZREM', queue.scheduled, envelope)
  moved = moved + 1
  return #envelope
end

local function promote(queue)
  local first = redis.call('ZRANGE', queue.scheduled, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= time and bytes > 0 then
    expect_queue(queue)
    bytes = read_bounded(limit, bytes, function(_, count)
      return redis.call('ZRANGEBYSCORE', queue.scheduled, '-inf', time, 'LIMIT', 0, count)
    end, function(envelope) return move(queue, envelope) end)
    first = redis.call('ZRANGE', queue.scheduled, 0, 0, 'WITHSCORES')
  end
  if first[2] then note_due(tonumber(first[2])) end
end

local next_timer, outbox = '-1', {}

local function read_next_timer()
  local due = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
  if due and tonumber(due) < NEVER then next_timer = int_text(math.max(0, tonumber(due) - time)) end
end

local function take_outbox_entries()
  local first = redis.call('ZRANGE', errands, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= time then
    for i, outbox_entry in ipairs(redis.call('ZRANGEBYSCORE', errands, '-inf', time, 'LIMIT', 0,
      args.outbox_limit)) do
      redis.call('ZADD', errands, int_text(time + args.grace), outbox_entry)
      outbox[i] = outbox_entry
    end
    first = redis.call('ZRANGE', errands, 0, 0, 'WITHSCORES')
  end
  if first[2] then note_due(tonumber(first[2])) end
end

for i, queue in ipairs(args.queues) do
  queue.target, queue.scheduled, queue.jobs = KEYS[2 + 2 * i], KEYS[3 + 2 * i], jobs
  run_part(function() promote(queue) end, function() expect_queue(queue) end)
end
run_part(read_next_timer, function() expect_type(KEYS[3], 'zset') end)
run_part(take_outbox_entries, function() expect_type(errands, 'zset') end)
local out = { moved, int_text(soonest), next_timer, #damaged }
for _, description in ipairs(damaged) do out[#out + 1] = description end
for _, outbox_entry in ipairs(outbox) do out[#out + 1] = outbox_entry end
return out
