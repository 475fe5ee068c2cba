"""What Spark's tasks do, stage by stage: encode row groups, judge messages, judge places, look at sends again."""
