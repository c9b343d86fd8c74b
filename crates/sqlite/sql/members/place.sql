-- Where a member is, and how it is spoken to.
SELECT endpoint, offer FROM tidemill_members WHERE id = ?1
