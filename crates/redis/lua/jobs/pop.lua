-- Moves jobs from a list to `taken`, oldest first, where they stay until the worker confirms them:
-- so a worker without a reply can ask again. Also removes the copies of earlier pops of that worker.
-- KEYS  list, paused, takers, taken, then `taken` of each earlier pop that is confirmed
-- ARGV  maximum number of jobs, id of this pop, ms after which it expires, '1' if a blocking read
--       into `taken` follows an empty reply, approximate maximum bytes, then the id of each earlier
--       pop
-- Returns 'paused' if the queue is; else how many jobs were moved.
local call, list, takers, taken = redis.call, KEYS[1], KEYS[3], KEYS[4]
if #KEYS > 4 then
  call('ZREM', takers, unpack(ARGV, 6))
  call('DEL', unpack(KEYS, 5))
end
if call('EXISTS', KEYS[2]) == 1 then return 'paused' end
local length = call('LLEN', list)
if length == 0 and ARGV[4] ~= '1' then return 0 end
-- Before any job is moved, because it fails on a key of another type.
local t = call('TIME')
call('ZADD', takers, string.format('%.0f', t[1] * 1000 + t[2] / 1000 + ARGV[3]), ARGV[2])
local count, bytes = math.min(length, tonumber(ARGV[1])), tonumber(ARGV[5])
-- SORT copies many jobs without passing each through the script: in half the time, and large ones in
-- a twentieth. Before 7.0, which has no REDIS_VERSION_NUM, it reads the whole list; and not every
-- user has permission for it. It has no byte limit, so the sizes of some jobs determine how many
-- are moved.
if count > 8 and redis.REDIS_VERSION_NUM then
  local many, back, step = count, 1, math.max(16, math.ceil(count / 3))
  while back <= many do
    many = math.min(many, math.max(1, math.floor(16 * bytes / #call('LRANGE', list, -back, -back)[1])))
    back = back + step
  end
  local copy = { 'SORT', list, 'BY', 'nosort', 'LIMIT', 0, many, 'DESC', 'STORE', taken }
  if redis.pcall(unpack(copy)) == many then
    call('LTRIM', list, 0, -many - 1)
    return many
  end
end
local moved = 0
while moved < count and bytes > 0 do
  bytes = bytes - #call('LMOVE', list, taken, 'RIGHT', 'RIGHT')
  moved = moved + 1
end
return moved
