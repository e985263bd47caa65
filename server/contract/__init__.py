"""openapi.yaml: what every operation takes and gives, from one table."""
