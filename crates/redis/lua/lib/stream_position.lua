-- For scripts that ask how far a stream has been read. What its group has read and holds no more is
-- done, even if another program has acknowledged it without deleting it.

-- Where the position of a paused group is, so that no reader gets anything.
local PAUSED_AT = '18446744073709551615-18446744073709551615'

-- Whether one entry's id is behind another's.
local function is_later(one, other)
  local function parts(id)
    local ms, n = string.match(id, '^(%d+)%-?(%d*)$')
    return tonumber(ms) or 0, tonumber(n) or 0
  end
  local ms, n = parts(one)
  local other_ms, other_n = parts(other)
  return ms > other_ms or ms == other_ms and n > other_n
end

-- Up to where the group of a paused stream had read. If the key that remembers it is gone, or holds something else, then
-- up to the last entry that is still held: whatever is behind it was never given out.
local function remembered(target, paused, group)
  local position = redis.pcall('GET', paused)
  if type(position) == 'string' and string.match(position, '^%d+%-%d+$') then return position, true end
  local pending = redis.call('XPENDING', target, group)
  return pending[3] or '0-0', false
end

-- How far a stream has been read: `at` (the last entry), `paused`, `pending` (how many are held), `lag` (how many are
-- behind, if the server knows), `known` (whether a paused stream's position is remembered), `group` (whether it exists),
-- `others` (other groups and their positions).
local function reading(target, paused, group)
  local r = { at = '0-0', paused = false, pending = 0, known = true, group = false, others = {} }
  expect(target, 'stream')
  if redis.call('EXISTS', target) == 0 then return r end
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', target)) do
    local found = {}
    for i = 1, #info, 2 do found[info[i]] = info[i + 1] end
    if found['name'] == group then
      r.group, r.at, r.pending = true, found['last-delivered-id'], found['pending']
      r.paused, r.lag = r.at == PAUSED_AT, found['lag'] or nil
    else
      r.others[found['name']] = found['last-delivered-id']
    end
  end
  if r.paused then
    r.lag = nil
    r.at, r.known = remembered(target, paused, group)
  end
  return r
end
