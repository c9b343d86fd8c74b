-- The cheapest statement.
SELECT 1
