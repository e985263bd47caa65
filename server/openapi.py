"""GET /openapi.json."""

from fastapi import APIRouter

router = APIRouter()
