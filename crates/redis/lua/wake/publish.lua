-- Creates a hint and publishes it in one step, so that no listener receives a hint before it
-- exists. One key, so that it works on a Cluster; a channel belongs to no slot.
-- KEYS  the hint
-- ARGV  number of jobs, channel, message, TTL of the hint in seconds, the message without the hint,
--       which is published after the other ('' for none)
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[4])
redis.call('PUBLISH', ARGV[2], ARGV[3])
if ARGV[5] ~= '' then redis.call('PUBLISH', ARGV[2], ARGV[5]) end
