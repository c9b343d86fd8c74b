-- Deletes waiting jobs, a bounded number: scheduled ones, then ready ones. Entries up to the group's position
-- are pending and stay.
-- KEYS  target, scheduled, jobs, paused, dropped
-- ARGV  kind ('s' or 'l'), group, limit
-- Returns how many were deleted, and how many were looked at.
local limit, count, seen = tonumber(ARGV[3]), 0, 0
local function forget(envelope)
  seen = seen + 1
  local sound, read = pcall(cjson.decode, envelope)
  if sound and type(read) == 'table' and type(read.job_id) == 'string' then
    if redis.call('HEXISTS', KEYS[5], read.job_id) == 1 then
      if redis.call('HINCRBY', KEYS[5], read.job_id, -1) <= 0 then redis.call('HDEL', KEYS[5], read.job_id) end
      return
    end
    redis.call('HDEL', KEYS[3], read.job_id)
  end
  count = count + 1
end
for i, part in ipairs(redis.call('ZPOPMIN', KEYS[2], limit)) do
  if i % 2 == 1 then forget(part) end
end
if ARGV[1] == 'l' then
  for _, envelope in ipairs(redis.call('RPOP', KEYS[1], limit) or {}) do forget(envelope) end
  return { count, seen }
end
local from = redis.call('GET', KEYS[4])
if not from and redis.call('EXISTS', KEYS[1]) == 1 then
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local found = {}
    for i = 1, #info, 2 do found[info[i]] = info[i + 1] end
    if found['name'] == ARGV[2] then from = found['last-delivered-id'] end
  end
end
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. (from or '0-0'), '+', 'COUNT', limit)) do
  redis.call('XDEL', KEYS[1], entry[1])
  forget(entry[2][2])
end
return { count, seen }
