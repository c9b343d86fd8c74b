-- Reads one session that has a worker, or a page of them. Writes nothing.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with session; or with first (member), last (end of the list), limit
-- Returns the cursor ('' on the last page), then for each: session, worker, endpoint, offer ('' if
-- the worker is gone), holder, '1' if a client is connected, '1' if closing, ms for which it
-- outlives its connection, when it began (ms), until when it lasts (ms), detail.
local ids, out = { args.session }, { '' }
if not args.session then
  local found = redis.call('ZRANGEBYLEX', SESSIONS, args.first, args.last, 'LIMIT', 0, args.limit)
  if #found == args.limit then out[1] = found[#found] end
  for i, entry in ipairs(found) do ids[i] = string.match(entry, '%S*$') end
end
for _, session_id in ipairs(ids) do
  local session = load_session(session_id)
  if session and not session.is_over then
    local worker, more = load_worker(session.member), redis.call('HMGET', session_key(session_id), 'keep',
      'started', 'detail')
    out[#out + 1] = { session_id, session.member, worker and worker.endpoint or '', worker and worker.offer
      or '', session.holder, session.is_connected and '1' or '0',
      session.is_closing and '1' or '0', more[1] or '0', more[2] or '0', int_text(session.ends), more[3]
        or '' }
  end
end
return out
