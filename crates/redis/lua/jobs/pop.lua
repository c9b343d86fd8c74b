-- Moves jobs from a list to `taken`, the oldest first, where they stay until the worker has said that it has read them: so a
-- worker that lost the answer can ask again. Also removes what earlier pops of that worker took.
-- KEYS  list, paused, takers, taken, then `taken` of each earlier pop whose answer has arrived
-- ARGV  how many at most, mark of this pop, for how long it may take in ms, '1' if a blocking read into `taken` follows an
--       empty answer, how many bytes, about, then the mark of each earlier pop
-- Returns 'paused' if the queue is; else how many were moved.
local call, list, takers, taken = redis.call, KEYS[1], KEYS[3], KEYS[4]
if #KEYS > 4 then
  call('ZREM', takers, unpack(ARGV, 6))
  call('DEL', unpack(KEYS, 5))
end
if call('EXISTS', KEYS[2]) == 1 then return 'paused' end
local length = call('LLEN', list)
if length == 0 and ARGV[4] ~= '1' then return 0 end
-- Before anything is moved, because it fails if the key holds something else.
local t = call('TIME')
call('ZADD', takers, string.format('%.0f', t[1] * 1000 + t[2] / 1000 + ARGV[3]), ARGV[2])
local count, bytes = math.min(length, tonumber(ARGV[1])), tonumber(ARGV[5])
-- SORT copies many without bringing each into this script: in half the time, and large ones in a twentieth. Before 7.0, which
-- does not say its version, it reads the whole list; and not every user may send it. It cannot be told how many bytes to stop
-- at, so the sizes of some of them say how many are moved.
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
