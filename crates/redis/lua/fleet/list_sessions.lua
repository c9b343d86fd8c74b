-- Looks at one session that has a member, or at a page of them. Writes nothing.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then: 'one', session; or 'page', where it begins, where the list ends, limit
-- Returns where the page ended ('' if there is no more), then each: session, member, endpoint, offer ('' if the member is not
-- there), holder, '1' if a client is connected, '1' if it is to end, for how many ms it outlives its connection, when it began
-- (ms), until when it lasts (ms), detail.
local ids, out = { ARGV[7] }, { '' }
if ARGV[6] == 'page' then
  local found = redis.call('ZRANGEBYLEX', SESSIONS, ARGV[7], ARGV[8], 'LIMIT', 0, tonumber(ARGV[9]))
  if #found == tonumber(ARGV[9]) then out[1] = found[#found] end
  for i, entry in ipairs(found) do ids[i] = string.match(entry, '%S*$') end
  if #found == 0 then ids = {} end
end
for _, sid in ipairs(ids) do
  local s = session(sid)
  if s and not s.is_over then
    local m, more = load(s.member), redis.call('HMGET', session_key(sid), 'keep', 'started', 'detail')
    out[#out + 1] = { sid, s.member, m and m.endpoint or '', m and m.offer or '', s.holder, s.is_connected and '1' or '0',
      s.is_closing and '1' or '0', more[1] or '0', more[2] or '0', whole(s.ends), more[3] or '' }
  end
end
return out
