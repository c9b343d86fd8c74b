-- Makes started stream entries held ones: they move from the worker's own consumer to its `+held` one.
-- KEYS  stream
-- ARGV  group, worker, then entries
for i = 3, #ARGV do
  if lease(KEYS[1], ARGV[1], ARGV[i]) then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2] .. '+held', 0, ARGV[i], 'JUSTID')
  end
end
return 1
