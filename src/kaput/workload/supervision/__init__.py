"""The client processes of a run, as kaput starts, watches and ends them."""
