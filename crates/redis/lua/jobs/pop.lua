-- Moves jobs from a list to `taken`, the oldest first, where they stay until the worker has said that it has read them: so a
-- worker that lost the answer can ask again. Also removes what earlier pops of that worker took.
-- KEYS  list, paused, takers, taken, then `taken` of each earlier pop whose answer has arrived
-- ARGV  how many at most, mark of this pop, for how long it may take in ms, '1' if a blocking read into `taken` follows an
--       empty answer, then the mark of each earlier pop
-- Returns 'paused' if the queue is; else how many were moved.
local call, list, takers, taken = redis.call, KEYS[1], KEYS[3], KEYS[4]
if #KEYS > 4 then
  call('ZREM', takers, unpack(ARGV, 5))
  call('DEL', unpack(KEYS, 5))
end
if call('EXISTS', KEYS[2]) == 1 then return 'paused' end
local length = call('LLEN', list)
if length == 0 and ARGV[4] ~= '1' then return 0 end
-- Before anything is moved, because it fails if the key holds something else.
local t = call('TIME')
call('ZADD', takers, string.format('%.0f', t[1] * 1000 + t[2] / 1000 + ARGV[3]), ARGV[2])
local count = math.min(length, tonumber(ARGV[1]))
-- SORT copies many without bringing each into this script, in half the time. Before 7.0, which does not say its version, it
-- reads the whole list; and not every user may send it.
local copy = { 'SORT', list, 'BY', 'nosort', 'LIMIT', 0, count, 'DESC', 'STORE', taken }
if count > 16 and redis.REDIS_VERSION_NUM and redis.pcall(unpack(copy)) == count then
  call('LTRIM', list, 0, -count - 1)
  return count
end
local left = count
while left > 0 do
  local popped = call('RPOP', list, math.min(left, 1000))
  call('RPUSH', taken, unpack(popped))
  left = left - #popped
end
return count
