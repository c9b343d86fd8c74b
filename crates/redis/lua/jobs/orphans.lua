-- Finds orphans in one page of the index: jobs of a list that are neither in the list, which is
-- empty, nor running. Writes nothing about them: a job that is just being taken looks the same. If
-- no pop has copies either, deletes the `dropped` counts, since no copy is left.
-- KEYS  jobs, list, running, dropped, takers
-- ARGV  one map: queue, cursor, page_size
-- Returns the next cursor ('0': last page), then chains.
local args = cmsgpack.unpack(ARGV[1])
if redis.call('LLEN', KEYS[2]) > 0 then return { '0' } end
local is_popped = redis.call('EXISTS', KEYS[4]) == 0 or redis.call('EXISTS', KEYS[2] .. ':purged:ready') == 1
for _, mark in ipairs(is_popped and {} or redis.call('ZRANGE', KEYS[5], 0, 255)) do
  is_popped = is_popped or redis.call('EXISTS', KEYS[2] .. ':taken:' .. mark) == 1
end
if not is_popped and redis.call('ZCARD', KEYS[5]) <= 256 then redis.call('DEL', KEYS[4]) end
local page = redis.call('HSCAN', KEYS[1], args.cursor, 'COUNT', args.page_size)
local out = { page[1] }
for i = 1, #page[2], 2 do
  local chain = page[2][i]
  if page[2][i + 1] == 'l ' .. args.queue and redis.call('HEXISTS', KEYS[3], chain) == 0 then
    out[#out + 1] = chain
  end
end
return out
