-- Ends claims of tasks and of jobs that runs wait for. functions/settle_runs.sql documents the
-- locks. Leases are sorted, as in jobs/finish.sql.
--
-- $1 tokens   $2 ids   $3 whether to end only expired leases   $4 the last phase
-- $5 to $16 commits   $17 to $24 events   $25 to $32 effects
-- $33 the channel for notifications of ends, or null
--
-- The commit itself notifies the waiters for an end, which saves a round trip. Commits that notify
-- are serialized, so the caller requests it only now and then: src/wake/commit_notify.rs.
SELECT ended, woken, (
    SELECT count(pg_notify($33, word)) FROM unnest(woken) AS word
    WHERE $33::text IS NOT NULL AND starts_with(word, 'finished ')
) AS told
FROM settle_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
    $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32)
