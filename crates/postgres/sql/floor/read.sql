-- The least a statement can do.
SELECT 1
