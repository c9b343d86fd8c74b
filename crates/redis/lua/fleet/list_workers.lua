-- Looks at one member, or at a page of them. Writes nothing.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then: 'one', member; or 'page', where it begins, where the list ends, limit
-- Returns where the page ended ('' if there is no more), then each: member, offer, endpoint, '1' if it is available, how many
-- sessions at once, in its life, for how many ms a beat is fresh, detail, when it beat (ms), '1' if that is recent, '1' if it is
-- ordered to drain, how many sessions it has, how many it has had.
local ids, out = { ARGV[7] }, { '' }
if ARGV[6] == 'page' then
  ids = redis.call('ZRANGEBYLEX', MEMBERS, ARGV[7], ARGV[8], 'LIMIT', 0, tonumber(ARGV[9]))
  if #ids == tonumber(ARGV[9]) then out[1] = ids[#ids] end
end
for _, id in ipairs(ids) do
  local m = load(id)
  if m then
    out[#out + 1] = { id, m.offer, m.endpoint, m.is_available and '1' or '0', whole(m.concurrent), whole(m.limit),
      whole(m.fresh), redis.call('HGET', WORKER .. id, 'detail') or '', whole(m.beat), m.is_fresh and '1' or '0',
      is_ordered(id) and '1' or '0', whole(active(id)), whole(lifetime(id)) }
  end
end
return out
