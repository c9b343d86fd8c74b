-- Puts jobs back to where a pop took them from. What is there no more was put back before.
-- KEYS  list, taken, takers
-- ARGV  mark of the pop
expect(KEYS[1], 'list')
expect(KEYS[3], 'zset')
while redis.call('LMOVE', KEYS[2], KEYS[1], 'RIGHT', 'RIGHT') do end
redis.call('ZREM', KEYS[3], ARGV[1])
return 1
