-- The state of the schema, and the rights of this role on it.
--
-- $1 schema
SELECT current_database() AS database, current_user::text AS role,
    current_setting('server_version_num')::int AS server,
    has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
    schema.oid IS NOT NULL AS exists,
    coalesce(has_schema_privilege(schema.oid, 'USAGE'), false) AS may_use,
    coalesce(has_schema_privilege(schema.oid, 'CREATE'), false) AS may_create,
    EXISTS (SELECT FROM pg_class WHERE relnamespace = schema.oid AND relname = 'migrations') AS migrated
FROM (SELECT 1) AS always LEFT JOIN pg_namespace AS schema ON nspname = $1::text
