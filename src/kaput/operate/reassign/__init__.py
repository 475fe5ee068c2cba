"""Moving replicas: plans, journals, applies with a throttle, resumes, verifies and undoes reassignments."""
