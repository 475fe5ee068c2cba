"""The phases of one run: provision, warm up, inject, heal, replay, drain, collect, compare, seal."""
