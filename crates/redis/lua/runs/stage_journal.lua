-- Stages journal entries for a run that is about to be started. Without that start they expire.
-- KEYS  staged
-- ARGV  TTL in ms, the first position, the run's cursor, then per entry: kind, entry
local first, cursor, time = tonumber(ARGV[2]), tonumber(ARGV[3]), now()
for i = 4, #ARGV, 2 do
  local position, kind, entry = first + (i - 4) / 2, ARGV[i], ARGV[i + 1]
  if position > cursor and kind ~= 'commit' then entry = with_time(entry, time) end
  redis.call('XADD', KEYS[1], int_text(position) .. '-0', 'data', entry, 'kind', kind)
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
