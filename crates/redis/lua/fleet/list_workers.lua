-- Reads one worker, or a page of them. Writes nothing.
-- KEYS  cluster:lifetime_connections
-- ARGV  the map of the fleet, with worker; or with first (member), last (end of the list), limit
-- Returns the cursor ('' on the last page), then for each: worker, offer, endpoint, '1' if
-- available, concurrent sessions, lifetime sessions, ms for which a heartbeat is fresh, detail,
-- last heartbeat (ms), '1' if it is fresh, '1' if ordered to drain, number of sessions, how many it
-- has ever had.
local ids, out = { args.worker }, { '' }
if not args.worker then
  ids = redis.call('ZRANGEBYLEX', MEMBERS, args.first, args.last, 'LIMIT', 0, args.limit)
  if #ids == args.limit then out[1] = ids[#ids] end
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
