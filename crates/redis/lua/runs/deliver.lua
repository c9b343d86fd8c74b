-- Appends events to journals, each atomically, and sees to it that each run has a task.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then deliveries
-- Returns for each: 'yes', 'again', 'missing', 'damaged', or how the run has ended.
local w = world(home(), 2)
local all, out = {}, {}
while w.has_more() do all[#all + 1] = read_delivery(w) end
for i, delivery in ipairs(all) do out[i] = deliver(w, delivery) end
finish(w)
return out
