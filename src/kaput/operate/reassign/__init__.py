"""Moving replicas: a plan is shown, written down, applied with a throttle, resumed, verified, undone."""
