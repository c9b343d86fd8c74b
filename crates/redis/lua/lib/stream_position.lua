-- How far a group has read its stream. Entries that it has read and no longer holds are done, even
-- if another program acknowledged them without deleting them.

-- The position of a paused group: no reader receives an entry.
local PAUSED_POSITION = '18446744073709551615-18446744073709551615'

-- Whether one entry id is greater than another.
local function is_later(one, other)
  local function parts(id)
    local ms, n = string.match(id, '^(%d+)%-?(%d*)$')
    return tonumber(ms) or 0, tonumber(n) or 0
  end
  local ms, n = parts(one)
  local other_ms, other_n = parts(other)
  return ms > other_ms or ms == other_ms and n > other_n
end

-- Returns the position of a paused group before the pause, and whether it was saved. If the key is
-- missing or holds something else, it is the last pending entry: no later entry was ever read.
local function saved_position(target, paused, group)
  local position = redis.pcall('GET', paused)
  if type(position) == 'string' and string.match(position, '^%d+%-%d+$') then return position, true end
  local pending = redis.call('XPENDING', target, group)
  return pending[3] or '0-0', false
end

-- Returns how far a stream has been read: `at` (the last entry), `paused`, `pending` (how many
-- entries are held), `lag` (how many follow, if the server knows), `known` (whether a paused
-- position was saved), `group` (whether it exists), `others` (other groups and their positions).
local function stream_position(target, paused, group)
  local result = { at = '0-0', paused = false, pending = 0, known = true, group = false, others = {} }
  expect_type(target, 'stream')
  if redis.call('EXISTS', target) == 0 then return result end
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', target)) do
    local found = {}
    for i = 1, #info, 2 do found[info[i]] = info[i + 1] end
    if found['name'] == group then
      result.group, result.at, result.pending = true, found['last-delivered-id'], found['pending']
      result.paused, result.lag = result.at == PAUSED_POSITION, found['lag'] or nil
    else
      result.others[found['name']] = found['last-delivered-id']
    end
  end
  if result.paused then
    result.lag = nil
    result.at, result.known = saved_position(target, paused, group)
  end
  return result
end
