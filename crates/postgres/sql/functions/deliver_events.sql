-- Appends events to journals and ensures that each run has a task. The results are those of
-- append_events.
--
-- Locks every run by id, as settle_runs does.
CREATE OR REPLACE FUNCTION deliver_events(targets text[], kinds smallint[], entries bytea[], event_ids bytea[],
    seqs bigint[], OUT answers smallint[], OUT woken text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM runs WHERE id = ANY (targets) ORDER BY id FOR UPDATE;
    answers := append_events(targets, kinds, entries, event_ids, seqs);
    woken := make_tasks(targets);
END $$;
