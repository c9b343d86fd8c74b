-- Removes what the loop made.
DROP TABLE IF EXISTS tidemill_floor
