-- Reads a part of a journal, up to the entry that reaches a total size. Reads in small steps, so
-- that entries beyond the limit are not read.
-- KEYS  events
-- ARGV  one map: from (position), limit, bytes
-- Returns entries as XRANGE does.
local args, out = cmsgpack.unpack(ARGV[1]), {}
local from, limit, bytes = args.from, args.limit, args.bytes
while #out < limit and bytes > 0 do
  local step = math.min(16, limit - #out)
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
