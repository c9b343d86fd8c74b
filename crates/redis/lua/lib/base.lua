-- Shared by every script: time, numbers, and type checks of keys.

local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function int_text(number)
  return string.format('%.0f', number)
end

-- Returns a journal entry with its time replaced by `time`, which is the server's.
local function with_time(entry, time)
  if string.sub(entry, 1, 6) ~= '{"at":' then return entry end
  local comma = string.find(entry, ',', 1, true)
  return comma and '{"at":' .. int_text(time) .. string.sub(entry, comma) or entry
end

-- Fails if a key holds another type than `kind`; returns whether the key exists. Scripts do not
-- roll back, so call this before the first write.
local function expect_type(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    error('WRONGTYPE ' .. key .. ' holds a ' .. found .. ' instead of a ' .. kind)
  end
  return found ~= 'none'
end

-- Returns the pending entry { id, consumer, idle, deliveries }, or nil if it is not pending. A
-- missing stream or group (FLUSHALL) ends every lease and is no error.
local function pending_entry(stream, group, entry)
  local found = redis.pcall('XPENDING', stream, group, entry, entry, 1)
  if not found.err then return found[1] end
  if not string.find(found.err, 'NOGROUP', 1, true) then error(found.err) end
end

-- Publishes a wake-up. A script does not roll back, so a PUBLISH that the user's ACL forbids must
-- not abort it between two writes. Listeners then find the change by polling.
local function notify(channel, message)
  redis.pcall('PUBLISH', channel, message)
end
