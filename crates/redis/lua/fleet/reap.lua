-- Removes members that have not beaten, sessions that have run out and places in line that nobody asked for, and enters
-- members that other programs have written, if it is told to; a bounded number of each. Those that are known stay what they were
-- taken to be when they were entered, whatever this caller would take for granted.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then: limit, where the walk over what other programs write goes on, where the walk over the
--       members that are known does, whether members are entered ('1' or '0')
-- Returns how many sessions, how many places, where the two walks are now, members that were dead, members that were found, and
-- what was written as a member and is none: its name and why.
local limit, dead, found, unusable, sessions, places = tonumber(ARGV[6]), {}, {}, {}, 0, 0
local enters = ARGV[9] == '1'

-- A walk may come by twice.
local buried = {}
local function bury(id)
  if buried[id] then return end
  buried[id] = true
  sessions = sessions + leave(id)
  dead[#dead + 1] = id
end

-- Takes up a member that another program has written, or looks again at one that does not say what has changed.
local function take_up(id)
  local m, why = load(id)
  local is_known = m ~= false and place_of(id)
  if m == nil then return bury(id) end
  if not m then
    unusable[#unusable + 1] = { id, why }
    return
  end
  if is_known and m.says_itself or not is_known and not enters then return end
  if not m.is_fresh then return bury(id) end
  if not is_known then found[#found + 1] = id end
  if place(m) then tell('places ' .. m.kind) end
end

sessions = end_expired(limit)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', STALE, '-inf', whole(TIME), 'LIMIT', 0, limit)) do
  local m = load(id)
  if m and m.is_fresh then place(m) else bury(id) end
end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', LINES, '-inf', whole(TIME), 'LIMIT', 0, limit)) do
  local kind, offer = string.match(name, '^(%S+) (%S+)$')
  if kind then
    local line = line_of(kind, offer)
    places = places + quit_absent(line)
    note(line)
    if redis.call('EXISTS', line.turns) == 1 then tell('places ' .. kind) end
  else
    redis.call('ZREM', LINES, name)
  end
end
local walk = redis.call('HSCAN', LIFETIME, ARGV[7], 'COUNT', limit)
for i = 1, #walk[2], 2 do take_up(walk[2][i]) end
-- A worker of another program that leaves deletes what it has written, and nothing of ours.
local round = redis.call('HSCAN', PLACES, ARGV[8], 'COUNT', limit)
for i = 1, #round[2], 2 do
  local id = round[2][i]
  if redis.call('EXISTS', WORKER .. id) == 0 then bury(id) end
end
return finish({ sessions, places, walk[1], round[1], dead, found, unusable })
