"""Ways of running a job: events (the reference), vector (lock step), analytic (closed forms)."""
