-- Ends a run without asking its code, if its journal is as long as the caller knows it.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: run, cursor, effects, close
-- Returns 1 if it has ended so, or with nothing written 0, or 2 if something is pending that comes first; then the errands
-- that are owed.
local w = world(home(), 2)
local id, cursor = w.read(), tonumber(w.read())
local r, effects, how = load(w, id), read_effects(w, id), read_close(w, id)
if r and r.state.pending then return { 2 } end
if effects.lost then return { 0 } end
if not r or not is_running(r) or r.state.cursor ~= cursor then return { 0 } end
local q, letter, reference = where(w, r.task)
if q then
  local taken = take(q, w.h, letter, reference)
  if taken == 'running' then notify(w.h.channel, 'lost ' .. r.task) end
  forget(w, q, r.task)
end
take_effect(w, r, effects)
end_run(w, r, how)
finish(w)
return with_owed({ 1 }, w.h)
