-- Returns popped jobs to their list. Jobs that are not in `taken` were returned before.
-- KEYS  list, taken, takers
-- ARGV  id of the pop
expect_type(KEYS[1], 'list')
expect_type(KEYS[3], 'zset')
while redis.call('LMOVE', KEYS[2], KEYS[1], 'RIGHT', 'RIGHT') do end
redis.call('ZREM', KEYS[3], ARGV[1])
return 1
