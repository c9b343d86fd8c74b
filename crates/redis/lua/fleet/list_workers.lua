-- Reads one worker, or a page of them. Writes nothing.
-- KEYS  cluster:lifetime_connections
-- ARGV  the ARGV of the fleet, then: 'one', worker; or 'page', first member, end of the list, limit
-- Returns the cursor ('' on the last page), then for each: worker, offer, endpoint, '1' if
-- available, concurrent sessions, lifetime sessions, ms for which a heartbeat is fresh, detail,
-- last heartbeat (ms), '1' if it is fresh, '1' if ordered to drain, number of sessions, how many it
-- has ever had.
local ids, out = { ARGV[7] }, { '' }
if ARGV[6] == 'page' then
  ids = redis.call('ZRANGEBYLEX', MEMBERS, ARGV[7], ARGV[8], 'LIMIT', 0, tonumber(ARGV[9]))
  if #ids == tonumber(ARGV[9]) then out[1] = ids[#ids] end
end
for _, id in ipairs(ids) do
  local worker = load_worker(id)
  if worker then
    out[#out + 1] = { id, worker.offer, worker.endpoint, worker.is_available and '1' or '0',
      int_text(worker.concurrent), int_text(worker.limit),
      int_text(worker.fresh), redis.call('HGET', WORKER .. id, 'detail') or '', int_text(worker.beat),
        worker.is_fresh and '1' or '0',
      is_drain_ordered(id) and '1' or '0', int_text(active_count(id)), int_text(lifetime_count(id)) }
  end
end
return out
