"""The search for experiments that lose messages: what may vary, what is played next, what is found."""
