-- The rights that this role needs and does not have.
SELECT what || ' on ' || name AS lacks
FROM unnest(ARRAY['jobs', 'ready', 'leases', 'receipts', 'queues', 'blocks', 'keys', 'owed', 'runs', 'journal',
    'alarms', 'deliveries', 'run_keys', 'attributes', 'members', 'sessions', 'tickets']) AS name,
    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS what
WHERE NOT has_table_privilege(name, what)
UNION ALL
SELECT 'USAGE on job_seq' WHERE NOT has_sequence_privilege('job_seq', 'USAGE')
UNION ALL
SELECT 'EXECUTE on now_ms()' WHERE NOT has_function_privilege('now_ms()', 'EXECUTE')
