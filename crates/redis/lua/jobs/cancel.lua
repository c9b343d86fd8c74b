-- Cancels one job that is where the index said, or tells that it has moved.
-- KEYS  jobs, target, scheduled, cancelled, lock, dropped
-- ARGV  job id, the index value as it was read ('' for an untracked job), place (first letter of that value),
--       reference (entry or member), group, channel
-- Returns 'removed', 'requested' or 'moved'.
local id, place, reference = ARGV[1], ARGV[3], ARGV[4]
local tracked = ARGV[2] ~= ''
if tracked and redis.call('HGET', KEYS[1], id) ~= ARGV[2] then return 'moved' end
local function request()
  if tracked then redis.call('HSET', KEYS[4], id, 1) end
  redis.call('PUBLISH', ARGV[6], 'cancel ' .. id)
  return 'requested'
end
if place == 'S' or place == 'L' then
  if redis.call('ZREM', KEYS[3], reference) == 0 then return 'moved' end
elseif place == 's' then
  if lease(KEYS[2], ARGV[5], reference) then return request() end
  if redis.call('XDEL', KEYS[2], reference) == 0 then return 'moved' end
else
  if redis.call('EXISTS', KEYS[5]) == 1 then return request() end
  -- Taking it out of the middle of a list costs a walk; whoever pops it drops it instead.
  redis.call('HINCRBY', KEYS[6], id, 1)
end
redis.call('HDEL', KEYS[1], id)
return 'removed'
