-- Marks started stream entries as held: moves them from the worker's consumer to its `+held`
-- consumer.
-- KEYS  stream
-- ARGV  group, worker, then entries
for i = 3, #ARGV do
  if pending_entry(KEYS[1], ARGV[1], ARGV[i]) then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2] .. '+held', 0, ARGV[i], 'JUSTID')
  end
end
return 1
