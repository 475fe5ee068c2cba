"""Views: the evidence of one task, with derived data that several questions need."""
