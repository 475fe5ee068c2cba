"""The nemesis: one file a fault (an action), targets apart from actions, and the catalogue of what exists."""
