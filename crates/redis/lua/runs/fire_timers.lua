-- Tells runs of their alarms whose time has come, a bounded number, each once. What is no alarm, or one of a run that cannot
-- be read, is set aside. One of a run whose queue cannot take its task is put off.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: limit, then per kind of alarm: letter, what stands before and after the number in
--       what it says
-- Returns how many were told, how many ms until the next is due (-1: there is none), then what is wrong with queues.
local w = world(home(), 2)
local limit, says, told = tonumber(w.read()), {}, 0
local DAMAGED = PREFIX .. 'damaged-timers'
local PUT_OFF = 10000
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

-- Runs are loaded before the first write, because that may fail: one run whose queue is damaged must not keep others waiting.
local due, damaged, is_damaged = {}, {}, {}
for i, alarm in ipairs(redis.call('ZRANGEBYSCORE', TIMERS, '-inf', whole(w.time), 'LIMIT', 0, limit)) do
  local id = string.match(alarm, '^[^ ]+')
  local sound, why = pcall(load, w, id or '')
  due[i], is_damaged[i] = alarm, not sound
  if not sound then damaged[#damaged + 1] = string.gsub(tostring(type(why) == 'table' and why.err or why), '^.-WRONGTYPE ', '') end
end
for i, alarm in ipairs(due) do
  if is_damaged[i] then
    redis.call('ZADD', TIMERS, whole(w.time + PUT_OFF), alarm)
  else
    redis.call('ZREM', TIMERS, alarm)
    if not tell(alarm) then redis.call('ZADD', DAMAGED, whole(w.time), alarm) end
  end
end
finish(w)
local first = redis.call('ZRANGE', TIMERS, 0, 0, 'WITHSCORES')[2]
-- What another program has put at the end of time (`+inf`) is due never.
if first and tonumber(first) >= 9007199254740991 then first = nil end
local out = { told, first and whole(math.max(0, tonumber(first) - w.time)) or '-1' }
for _, what in ipairs(damaged) do out[#out + 1] = what end
return out
