"""The engine: asks questions of views, task by task, and adds up their finds. Knows no question by name."""
