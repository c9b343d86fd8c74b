-- Makes a hint and tells everybody of it, in one step: nobody hears of a hint that is not there yet.
-- One key only, so that it works on a Cluster; a channel belongs to no slot.
-- KEYS: 1 the hint
-- ARGV: 1 how many jobs there are   2 the channel   3 the message   4 for how many seconds the hint is kept
--       5 the message without the hint, published behind the other; '' if it is not
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[4])
redis.call('PUBLISH', ARGV[2], ARGV[3])
if ARGV[5] ~= '' then redis.call('PUBLISH', ARGV[2], ARGV[5]) end
