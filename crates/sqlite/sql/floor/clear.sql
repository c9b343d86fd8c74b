-- Removes what the loop made.
DROP TABLE IF EXISTS floor
