-- Takes jobs off a list, the oldest first, and keeps a copy of them in `taken` until the worker has said that the answer has
-- arrived: so a worker that lost the answer can ask again. Also removes the copies of earlier pops of that worker.
-- KEYS  list, paused, takers, taken, then `taken` of each earlier pop whose answer has arrived
-- ARGV  how many at most, mark of this pop, for how long it may take in ms, '1' if a blocking read into `taken` follows an
--       empty answer, then the mark of each earlier pop
-- Returns 'paused' if the queue is; else the envelopes.
local list, takers, taken, mark = KEYS[1], KEYS[3], KEYS[4], ARGV[2]
expect(list, 'list')
expect(takers, 'zset')
for i = 5, #KEYS do
  redis.call('DEL', KEYS[i])
  redis.call('ZREM', takers, ARGV[i])
end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'paused' end
local popped = redis.call('RPOP', list, ARGV[1]) or {}
if #popped > 0 or ARGV[4] == '1' then redis.call('ZADD', takers, whole(now() + tonumber(ARGV[3])), mark) end
for i = 1, #popped, 1000 do
  redis.call('RPUSH', taken, unpack(popped, i, math.min(i + 999, #popped)))
end
return popped
