-- Fires due timers of runs, a bounded number, each once. Sets aside members that are no timer, or
-- belong to a damaged run. Postpones timers of runs whose queue cannot take a task.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, limit, and events: by letter of a timer, the JSON before and after
--       the number in its event
-- Returns how many fired, ms until the next is due (-1: there is none), then descriptions of
-- damaged queues.
local args = cmsgpack.unpack(ARGV[1])
local ctx = run_context(shard_context(args.channel), args.context)
local fired = 0
local DAMAGED = PREFIX .. 'damaged-timers'
local PUT_OFF = 10000
expect_type(DAMAGED, 'zset')

-- Whether the timer is finished: its run got the event, or no longer needs it.
local function deliver_event(timer)
  local id, seq, letter = string.match(timer, '^([^ ]+) (%d+) (.)$')
  if not id or not args.events[letter] then return false end
  local run = load_run(ctx, id)
  if run == false then return false end
  -- The run's own set is a copy, so damage there is no reason to fail.
  redis.pcall('ZREM', PREFIX .. 'timers-' .. id, seq .. ' ' .. letter)
  if not run or not is_running(run) or run.state.dropping then return true end
  local before, after = unpack(args.events[letter])
  local event = before .. seq .. after
  if not append_entry(ctx, run, 'answer', '{"at":' .. int_text(ctx.time) .. ',"event":' .. event .. '}') then
    return false
  end
  run.wants_task, fired = true, fired + 1
  return true
end

-- Runs are loaded before the first write, because that may fail: a damaged queue must not delay
-- others.
local due, damaged, is_damaged = {}, {}, {}
for i, timer in ipairs(redis.call('ZRANGEBYSCORE', TIMERS, '-inf', int_text(ctx.time), 'LIMIT', 0,
  args.limit)) do
  local id = string.match(timer, '^[^ ]+')
  local sound, why = pcall(load_run, ctx, id or '')
  due[i], is_damaged[i] = timer, not sound
  if not sound then
    damaged[#damaged + 1] = string.gsub(tostring(type(why) == 'table' and why.err or why), '^.-WRONGTYPE ',
      '')
  end
end
for i, timer in ipairs(due) do
  if is_damaged[i] then
    redis.call('ZADD', TIMERS, int_text(ctx.time + PUT_OFF), timer)
  else
    redis.call('ZREM', TIMERS, timer)
    if not deliver_event(timer) then redis.call('ZADD', DAMAGED, int_text(ctx.time), timer) end
  end
end
save_runs(ctx)
local first = redis.call('ZRANGE', TIMERS, 0, 0, 'WITHSCORES')[2]
-- A due time of another program at the end of time (`+inf`) never comes.
if first and tonumber(first) >= 9007199254740991 then first = nil end
local out = { fired, first and int_text(math.max(0, tonumber(first) - ctx.time)) or '-1' }
for _, description in ipairs(damaged) do out[#out + 1] = description end
return out
