-- Deletes waiting jobs, a bounded number: scheduled ones, then ready ones. Entries up to the group's position
-- are pending and stay.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, paused, dropped
-- ARGV  channel, kind ('s' or 'l'), group, limit
-- Returns how many were deleted, and how many were looked at; then the errands that are owed.
local h, target, dropped = home(), KEYS[6], KEYS[9]
local limit, count, seen = tonumber(ARGV[4]), 0, 0
expect_home(h)
local function forget(envelope)
  seen = seen + 1
  local id = id_in(envelope)
  local chain = id and chain_of(id)
  if chain and redis.call('HEXISTS', dropped, chain) == 1 then
    if redis.call('HINCRBY', dropped, chain, -1) <= 0 then redis.call('HDEL', dropped, chain) end
    return
  end
  if chain and redis.call('HDEL', h.jobs, chain) == 1 then close(h, chain, '', 0) end
  count = count + 1
end
for i, part in ipairs(redis.call('ZPOPMIN', KEYS[7], limit)) do
  if i % 2 == 1 then forget(part) end
end
if ARGV[2] == 'l' then
  for _, envelope in ipairs(redis.call('RPOP', target, limit) or {}) do forget(envelope) end
  return with_owed({ count, seen }, h)
end
local from = redis.call('GET', KEYS[8])
if not from and redis.call('EXISTS', target) == 1 then
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', target)) do
    local found = {}
    for i = 1, #info, 2 do found[info[i]] = info[i + 1] end
    if found['name'] == ARGV[3] then from = found['last-delivered-id'] end
  end
end
for _, entry in ipairs(redis.call('XRANGE', target, '(' .. (from or '0-0'), '+', 'COUNT', limit)) do
  redis.call('XDEL', target, entry[1])
  forget(entry[2][2])
end
return with_owed({ count, seen }, h)
