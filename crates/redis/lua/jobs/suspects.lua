-- A page of index entries of a list's jobs that are neither in the list, which is empty, nor with a runner. Writes
-- nothing: one that was taken in this moment looks the same.
-- KEYS  jobs, list, running
-- ARGV  queue, cursor, how many to look at
-- Returns the next cursor ('0': that was the last page), then chains.
if redis.call('LLEN', KEYS[2]) > 0 then return { '0' } end
local page = redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
local out = { page[1] }
for i = 1, #page[2], 2 do
  local chain = page[2][i]
  if page[2][i + 1] == 'l ' .. ARGV[1] and redis.call('HEXISTS', KEYS[3], chain) == 0 then out[#out + 1] = chain end
end
return out
