"""What Spark's tasks do: encode row groups, judge messages, judge places, look at sends again."""
