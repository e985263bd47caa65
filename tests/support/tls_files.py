"""A certificate for localhost that signs itself, and its key; good for tests alone."""

from pathlib import Path

CERTIFICATE = Path(__file__).parent / "tls" / "certificate.pem"
KEY = Path(__file__).parent / "tls" / "key.pem"
