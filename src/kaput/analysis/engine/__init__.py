"""Asking: questions of views, task by task, and what they find added up. No question is named here."""
