"""Who sends and who reads: producers and group members in processes of their own, and the final drain."""
