-- Removes the entries of untracked list jobs whose workers are gone, one page.
-- KEYS  untracked, cancelled
-- ARGV  cursor, page size
-- Returns the next cursor ('0': last page), and how many were removed.
expect_type(KEYS[2], 'hash')
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
