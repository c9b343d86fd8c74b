-- Stages entries of the journal of a run that is still to be started. Without it they are forgotten after a while.
-- KEYS  staged
-- ARGV  how long they are kept in ms, the first position, then per entry: kind, entry
local first = tonumber(ARGV[2])
for i = 3, #ARGV, 2 do
  local position = string.format('%.0f-0', first + (i - 3) / 2)
  redis.call('XADD', KEYS[1], position, 'data', ARGV[i + 1], 'kind', ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
