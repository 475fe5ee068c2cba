"""What Spark's tasks do: encode row groups, examine messages and places, scan sends again."""
