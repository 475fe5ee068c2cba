"""One run, from a scenario to sealed evidence: provision, warm up, inject, heal, drain, collect, seal."""
