-- Stages journal entries for a run that is about to be started. Without that start they expire.
-- KEYS  staged
-- ARGV  one map: ttl (ms), first (position), cursor of the run, items: kind and entry of each
local args, time = cmsgpack.unpack(ARGV[1]), now()
for i, item in ipairs(args.items) do
  local position, entry = args.first + i - 1, item.entry
  if position > args.cursor and item.kind ~= 'commit' then entry = with_time(entry, time) end
  redis.call('XADD', KEYS[1], int_text(position) .. '-0', 'data', entry, 'kind', item.kind)
end
redis.call('PEXPIRE', KEYS[1], args.ttl)
return 1
