"""Settings and fixtures that every test may use."""

from hypothesis import HealthCheck, settings

# A shared machine stalls at times: how long an example takes proves nothing.
settings.register_profile(
    "octavo", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("octavo")
