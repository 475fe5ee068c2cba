"""The client processes of a run: starts, watches and ends them."""
