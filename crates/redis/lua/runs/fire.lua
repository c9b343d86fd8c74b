-- Tells runs of their alarms whose time has come, a bounded number, each once. What is no alarm, or one of a run that cannot
-- be read, is set aside.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: limit, then per kind of alarm: letter, what stands before and after the number in
--       what it says
-- Returns how many were told, and how many ms until the next is due (-1: there is none).
local w = world(home(), 2)
local limit, says, told = tonumber(w.read()), {}, 0
local DAMAGED = PREFIX .. 'damaged-timers'
expect(DAMAGED, 'zset')
while w.has_more() do says[w.read()] = { w.read(), w.read() } end

-- Whether the alarm is done with: the run is told, or nobody wants to be.
local function tell(alarm)
  local id, seq, letter = string.match(alarm, '^([^ ]+) (%d+) (.)$')
  if not id or not says[letter] then return false end
  local r = load(w, id)
  if r == false then return false end
  -- The run's own are a copy, so what is wrong with them is no reason to fail.
  redis.pcall('ZREM', PREFIX .. 'timers-' .. id, seq .. ' ' .. letter)
  if not r or not is_running(r) or r.state.dropping then return true end
  local event = says[letter][1] .. seq .. says[letter][2]
  if not append(w, r, 'answer', '{"at":' .. whole(w.time) .. ',"event":' .. event .. '}') then return false end
  r.wants_task, told = true, told + 1
  return true
end

for _, alarm in ipairs(redis.call('ZRANGEBYSCORE', TIMERS, '-inf', whole(w.time), 'LIMIT', 0, limit)) do
  redis.call('ZREM', TIMERS, alarm)
  if not tell(alarm) then redis.call('ZADD', DAMAGED, whole(w.time), alarm) end
end
finish(w)
local first = redis.call('ZRANGE', TIMERS, 0, 0, 'WITHSCORES')[2]
-- What another program has put at the end of time (`+inf`) is due never.
if first and tonumber(first) >= 9007199254740991 then first = nil end
return { told, first and whole(math.max(0, tonumber(first) - w.time)) or '-1' }
