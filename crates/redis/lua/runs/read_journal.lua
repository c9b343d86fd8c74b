-- Reads a part of a journal, up to the entry that reaches a total size. Reads in small steps, so
-- that entries beyond the limit are not read.
-- KEYS  events
-- ARGV  first position, maximum number, bytes
-- Returns entries as XRANGE does.
local from, most, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local out = {}
while #out < most and bytes > 0 do
  local step = math.min(16, most - #out)
  local found = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', step)
  for _, entry in ipairs(found) do
    if bytes <= 0 then break end
    out[#out + 1] = entry
    for i = 1, #entry[2], 2 do
      if entry[2][i] == 'data' then bytes = bytes - #entry[2][i + 1] end
    end
    from = '(' .. entry[1]
  end
  if #found < step then break end
end
return out
