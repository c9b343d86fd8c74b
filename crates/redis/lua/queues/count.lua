-- Counts the jobs of a queue by state. Leaves out keys of the wrong type.
-- KEYS  target, scheduled, dlq, paused, running, dropped, blocked
-- ARGV  kind ('s' or 'l'), group
-- Returns ready, scheduled, blocked, running, dead, 1 if it is paused, 1 if its position was not
-- saved; then the damaged keys.
local target, paused, kind, group = KEYS[1], KEYS[4], ARGV[1], ARGV[2]
local damaged = {}

local function size(command, key)
  local count = redis.pcall(command, key)
  if type(count) == 'number' then return count end
  damaged[#damaged + 1] = key
  return 0
end

-- Counts entries that have been read, of the first 1,000 and 1 MiB. Only if nobody holds the oldest
-- one: that does not happen while all readers delete what they acknowledge.
local function read_entries(position)
  local count, bytes, from = 0, 0, '-'
  local first = redis.call('XRANGE', target, '-', '+', 'COUNT', 1)[1]
  if not first or is_later(first[1], position.at) or pending_entry(target, group, first[1]) then return 0 end
  repeat
    local page = redis.call('XRANGE', target, from, position.at, 'COUNT', 50)
    for _, entry in ipairs(page) do
      count, from = count + 1, '(' .. entry[1]
      for _, part in ipairs(entry[2]) do bytes = bytes + #part end
    end
  until #page < 50 or count >= 1000 or bytes > 1048576
  return count
end

-- Counts the copies in the list that are to be dropped. Of very many chains each counts as one.
local function dropped_copies()
  local chains, copies = size('HLEN', KEYS[6]), 0
  if chains == 0 or chains > 100 then return chains end
  for _, value in ipairs(redis.call('HVALS', KEYS[6])) do
    copies = copies + (tonumber(string.match(value, '^%d+')) or 1)
  end
  return copies
end

local length = size(kind == 's' and 'XLEN' or 'LLEN', target)
local is_sound = #damaged == 0
local scheduled, dead, blocked = size('ZCARD', KEYS[2]), size('XLEN', KEYS[3]), size('ZCARD', KEYS[7])
local ready, running, is_paused, is_lost = length, 0, false, false
if kind == 'l' then
  running, is_paused = size('HLEN', KEYS[5]), redis.call('EXISTS', paused) == 1
  ready = length - dropped_copies()
elseif is_sound then
  local position = stream_position(target, paused, group)
  running, is_paused, is_lost = position.pending, position.paused, not position.known
  if length > running then ready = length - math.max(running, read_entries(position)) else ready = 0 end
  if position.lag and position.lag < ready then ready = position.lag end
end
local out = { math.max(ready, 0), scheduled, blocked, running, dead, is_paused and 1 or 0, is_lost and 1
  or 0 }
for _, key in ipairs(damaged) do out[#out + 1] = key end
return out
