-- Removes a bounded number of a queue's waiting jobs and says where each waited.
DELETE FROM jobs WHERE seq IN (SELECT seq FROM waiting WHERE queue = ?1 AND seq <= ?2 ORDER BY due, seq LIMIT ?3)
RETURNING due, seq
