-- Shared by every script: time, numbers, and what a key should hold.

local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function whole(number)
  return string.format('%.0f', number)
end

-- An entry of a journal with this time in it, whatever the caller took for it.
local function stamped(entry, time)
  if string.sub(entry, 1, 6) ~= '{"at":' then return entry end
  local comma = string.find(entry, ',', 1, true)
  return comma and '{"at":' .. whole(time) .. string.sub(entry, comma) or entry
end

-- Fails if a key holds something else than it should, and says whether there is one. Scripts do not roll back, so this
-- comes before the first write.
local function expect(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    error('WRONGTYPE ' .. key .. ' holds a ' .. found .. ' instead of a ' .. kind)
  end
  return found ~= 'none'
end

-- The pending entry { id, consumer, idle, deliveries }; nil if it is not pending, or if stream and group are gone
-- altogether (FLUSHALL), which ends every lease and is no error.
local function lease(stream, group, entry)
  local found = redis.pcall('XPENDING', stream, group, entry, entry, 1)
  if not found.err then return found[1] end
  if not string.find(found.err, 'NOGROUP', 1, true) then error(found.err) end
end

-- Publishes a wake-up. A user without the right to the channel still completes the script: a script does not roll back, so a
-- refused PUBLISH must not end it between two writes. Listeners then find the change by polling.
local function notify(channel, message)
  redis.pcall('PUBLISH', channel, message)
end
