-- Forgets jobs of a list that are in no index and were noted as running by workers that are gone, a page of them.
-- KEYS  untracked, cancelled
-- ARGV  cursor, how many to look at
-- Returns the next cursor ('0': that was the last page), and how many were forgotten.
expect(KEYS[2], 'hash')
local page, time, gone = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2]), now(), {}
for i = 1, #page[2], 2 do
  local till = string.match(page[2][i + 1], '^%d+')
  if not till or tonumber(till) <= time then gone[#gone + 1] = page[2][i] end
end
for _, id in ipairs(gone) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('HDEL', KEYS[2], id)
end
return { page[1], #gone }
